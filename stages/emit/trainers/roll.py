"""How ROLL is made to follow an ordered file: it shuffles always, so by a scheduler of our own.

Source: `roll/distributed/scheduler/generate_scheduler.py: get_next_dataset_item` (shuffles its
indices every epoch) and `roll/pipeline/rlvr/rlvr_pipeline.py` (builds a scheduler a domain), 0.3.0,
commit 8eb27cc2.
"""

from stages.emit.syntax import yaml
from stages.emit.trainer import FOLDER, Follows, Handover, Settings, Trainer


def settings(handover: Handover) -> Settings:
    """Keys of ROLL's pipeline configuration."""
    return {
        "rollout_batch_size": handover.batch.size,
        "num_return_sequences_in_group": handover.samples_per_prompt,
        "is_use_additional_prompts": False,
        "async_generation_ratio": 0,
        "actor_train.data_args.file_name": [f"{FOLDER}/{handover.data_file}"],
    }


def concerns(handover: Handover) -> list[str]:
    """A file that ROLL would not read."""
    if handover.data_file.endswith(".jsonl"):
        return []
    return ["ROLL reads JSON lines: give the prompts as .jsonl from predict on"]


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    size = handover.batch.size
    return f"""## Run

ROLL shuffles its prompts every epoch. `asp_roll.py` runs its script with a scheduler that takes
them in the order of the file. Put `roll.yaml` into your configuration, with the absolute path of
this directory for `{FOLDER}`; then

```
export PYTHONPATH=THIS_DIRECTORY:$PYTHONPATH
python3 -m asp_roll examples/start_rlvr_pipeline.py --config_path ... --config_name ...
```

## What is kept

Order and batch boundaries, with `async_generation_ratio: 0` and without additional prompts: {size}
prompts a step. Of several domains each keeps its order, but `domain_interleave_probs` decides how
many prompts of each make a batch: balance the prompts of one domain.

## Traps of ROLL

- Started without `asp_roll`, the schedule is lost, silently.
- Prompts of more than `prompt_length` tokens, or of fewer than 5, are dropped when the file is
  read; the scheduler then refuses it. Give emit `--max-prompt-tokens`.
- Prompts must stand in `messages` (a JSON string) or `prompt`, with `id`, `tag` and the further
  columns of ROLL.
- `query_filter` functions draw further prompts for those that they filter out.
- The file holds {handover.passes}; ROLL's `max_steps` says how long it trains.

ROLL's routers are its own; there is no setting for the `instance` column, nor for minibatches of
varying size.
"""


ROLL = Trainer(
    name="roll",
    title="ROLL",
    follows=Follows(
        order="shipped code",
        batches="kept",
        sizes="fixed",
        instances="no",
        partial_rollouts="unsupported",
        checked="0.3.0 (8eb27cc2): source read",
        proof="contract",
    ),
    settings=settings,
    settings_file="roll.yaml",
    render=yaml,
    notes=notes,
    concerns=concerns,
    filters="a query filter of the scheduler",
    plugins=("asp_order.py", "asp_roll.py"),
)
