"""How slime is made to follow an ordered file: its defaults, and a data source for what they miss.

Source: `slime/rollout/data_source.py` (slices of the file in order, wrapping at its end),
`slime/rollout/sglang_rollout.py` (draws --over-sampling-batch-size prompts at a time until
--rollout-batch-size of them are done) and `slime/utils/arguments.py`, slime 0.3.1, commit 624b824a.
"""

from stages.emit.syntax import flags
from stages.emit.trainer import FOLDER, Follows, Handover, Settings, Trainer


def settings(handover: Handover) -> Settings:
    """Arguments of slime's train.py."""
    size, samples = handover.batch.size, handover.samples_per_prompt
    chat = {} if handover.has_text_prompts else {"apply-chat-template": True}
    return {
        "prompt-data": f"{FOLDER}/{handover.data_file}",
        "input-key": handover.prompt_column,
        **chat,
        "data-source-path": "asp_slime.ScheduledDataSource",
        "rollout-function-path": "asp_slime.generate_rollout",
        "rollout-batch-size": size,
        "over-sampling-batch-size": size,
        "n-samples-per-prompt": samples,
        "global-batch-size": size * samples,
        "num-epoch": 1,
    } | ({"partial-rollout": True} if handover.has_budgets else {})


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    size, samples = handover.batch.size, handover.samples_per_prompt
    return f"""## Run

```
export ASP_DIR=THIS_DIRECTORY PYTHONPATH=THIS_DIRECTORY:$PYTHONPATH
eval "ASP_ARGS=($(tr '\\n' ' ' < "$ASP_DIR/slime_args.txt"))"
python3 train.py "${{ASP_ARGS[@]}}" YOUR_OTHER_ARGUMENTS
```

Started as a Ray job, PYTHONPATH belongs into `env_vars` of `--runtime-env-json`, as in slime's own
scripts.

## What is kept

Order and batch boundaries: a rollout takes {size} prompts, one training step of {size} x {samples}
samples. slime's own data source keeps both too, as long as it gives exactly one batch a rollout.
`asp_slime.py` does more: it refuses a file of which rows were dropped, starts every rollout where a
planned batch starts, saves its buffer with the checkpoint, and writes what the plan says of a
sample to `metadata["asp"]`, which `--save-debug-rollout-data` keeps beside `response_length`.
It needs `slime.rollout.sglang_rollout`; for another rollout function, leave out
`--rollout-function-path` and call `data_source.order.anchor()` where yours begins.

## Traps of slime

- `--rollout-shuffle` is off by default, and must stay so: the data source refuses it.
- `--rollout-max-prompt-len` drops prompts from the file: the data source refuses that; give emit
  `--max-prompt-tokens` instead.
- `--dynamic-sampling-filter-path` draws a further {size} prompts when too few of a batch pass.
  slime forgets those of them that it does not need, and the next rollout starts a planned batch.
- `--over-sampling-batch-size` above {size} draws a part of the next batch too; the rest of that
  comes at the end of the epoch.
- `--partial-rollout` recycles responses that were aborted when the batch was full, which needs
  over-sampling to happen at all; they go before all others. It knows no token budgets.
- `--balance-data` may send the samples of one prompt into different training steps.
- `--num-epoch` stays 1: the file holds {handover.passes}.
- `slime.rollout.fully_async_rollout` keeps the order of submission only.
- Columns other than prompt, `--label-key`, `--metadata-key` and `--tool-key` are not read.

slime routes all prompts of a rollout through one router; there is no setting for the `instance`
column, nor for minibatches of varying size.
"""


SLIME = Trainer(
    name="slime",
    title="slime",
    follows=Follows(
        order="settings",
        batches="kept",
        sizes="fixed",
        instances="no",
        partial_rollouts="settings",
        checked="0.3.1 (624b824a): its dataset and data source run; its rollout loop read",
        proof="contract",
    ),
    settings=settings,
    settings_file="slime_args.txt",
    render=flags,
    notes=notes,
    filters="--dynamic-sampling-filter-path",
    carries_columns=False,
    plugins=("asp_order.py", "asp_slime.py"),
)
