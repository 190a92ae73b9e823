"""How NeMo-RL is made to follow an ordered file: settings alone, fixed train batches.

Source: `nemo_rl/algorithms/grpo.py` (a loader that shuffles as told and drops a partial last
batch), `nemo_rl/data/datasets/response_datasets/response_dataset.py`,
`nemo_rl/data/datasets/raw_dataset.py` (a validation split permutes the rows) and
`nemo_rl/algorithms/async_utils/staleness_sampler.py` (the samplers), commit 7ea279ab.
"""

from stages.emit.syntax import hydra
from stages.emit.trainer import FOLDER, Follows, Handover, Settings, Trainer


def settings(handover: Handover) -> Settings:
    """Overrides of examples/run_grpo.py."""
    size, samples = handover.batch.size, handover.samples_per_prompt
    return {
        "data.train.dataset_name": "ResponseDataset",
        "data.train.data_path": f"{FOLDER}/{handover.data_file}",
        "+data.train.input_key": handover.prompt_column,
        "data.train.split_validation_size": 0,
        "data.shuffle": False,
        "data.use_multiple_dataloader": False,
        "grpo.num_prompts_per_step": size,
        "grpo.num_generations_per_prompt": samples,
        "grpo.use_dynamic_sampling": False,
        "grpo.batch_multiplier": 1,
        "grpo.max_num_epochs": 1,
        "policy.train_global_batch_size": size * samples,
    }


def concerns(handover: Handover) -> list[str]:
    """Prompts that its dataset would not take."""
    if handover.has_text_prompts:
        return []
    return [
        "NeMo-RL's ResponseDataset takes text prompts and an answer (output_key), or a column "
        "`messages` of a question and its answer: column "
        f"{handover.prompt_column!r} holds messages, which need a dataset class of your own"
    ]


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    return f"""## Run

`overrides.txt` holds one override a line. `{FOLDER}` in it stands for the absolute path of this
directory:

```
cd THIS_DIRECTORY
ASP=$(sed "s|\\{FOLDER}|$PWD|" overrides.txt)
cd NEMO_RL
uv run examples/run_grpo.py --config YOUR_CONFIG $ASP +data.train.output_key=ANSWER_COLUMN
```

## What is kept

Order and batch boundaries. In asynchronous training by a single controller also, with
`async_rl.sampler.name=in_order`, which stamps each batch with the step that is to train on it; the
other samplers, and `grpo.async_grpo`, form batches by readiness.

## Traps of NeMo-RL

- `data.shuffle` is true in its examples. With true the schedule is lost, silently.
- `data.train.split_validation_size` above 0 splits by a permutation: the order is lost, silently.
- `grpo.use_dynamic_sampling` (DAPO) draws further batches for prompts that it filters out, and
  `grpo.batch_multiplier` changes how many are drawn.
- Prompts as long as `data.max_input_seq_length` stay, cut and masked out of the loss.
- A partial last batch is dropped: see Remainder above.
- `grpo.max_num_epochs` stays 1: the file holds {handover.passes}. `grpo.max_num_steps` may end it
  before.
- ResponseDataset keeps prompt and answer of a row, no further columns.

Generation is dealt round robin; there is no setting for the `instance` column, nor for minibatches
of varying size.
"""


NEMO_RL = Trainer(
    name="nemo-rl",
    title="NeMo-RL",
    follows=Follows(
        order="settings",
        batches="kept",
        sizes="fixed",
        instances="no",
        partial_rollouts="unsupported",
        checked="7ea279ab (after 0.7.0): its dataset run, the rest read",
        proof="contract",
    ),
    settings=settings,
    settings_file="overrides.txt",
    render=hydra,
    notes=notes,
    concerns=concerns,
    filters="grpo.use_dynamic_sampling",
    carries_columns=False,
)
