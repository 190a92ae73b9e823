"""How AReaL is made to follow an ordered file: settings alone, on a dataset saved to disk.

Source: `areal/utils/dataloader.py: create_dataloader` (a DistributedSampler that shuffles as told),
`areal/dataset/__init__.py` (which paths are read how) and `areal/api/cli_args.py`, 1.0.4, commit
4aef98d8.
"""

from stages.emit.syntax import yaml
from stages.emit.trainer import FOLDER, Follows, Handover, Settings, Trainer


def settings(handover: Handover) -> Settings:
    """Keys of AReaL's experiment configuration."""
    return {
        "total_train_epochs": 1,
        "train_dataset.path": f"{FOLDER}/dataset",
        "train_dataset.type": "rl",
        "train_dataset.batch_size": handover.batch.size,
        "train_dataset.shuffle": False,
        "train_dataset.num_workers": 0,
        "train_dataset.max_length": None,
        "rollout.consumer_batch_size": handover.batch.size,
        "rollout.max_head_offpolicyness": 0,
        "gconfig.n_samples": handover.samples_per_prompt,
        "dynamic_bs": False,
    }


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    kind = "parquet" if handover.data_file.endswith(".parquet") else "json"
    return f"""## Run

AReaL reads datasets as `datasets` saves them. Save the data file so, once:

```python
from datasets import load_dataset

path = "THIS_DIRECTORY/{handover.data_file}"
dataset = load_dataset("{kind}", data_files=path, split="train")
dataset.save_to_disk("THIS_DIRECTORY/dataset")
```

Put `areal.yaml` into your configuration, with the absolute path of this directory for `{FOLDER}`.
AReaL's RLVR workflow takes prompts from a column `messages`: rename yours before you save.

## What is kept

Order, and with `max_head_offpolicyness: 0` batch boundaries. Above 0 prompts are submitted in
order, and join a step as they complete.

## Traps of AReaL

- `train_dataset.shuffle` is true by default. With true the schedule is lost, silently.
- A path that contains the name of a built-in dataset (`gsm8k`, `geometry3k`, ...) is read as that.
- `train_dataset.max_length` drops longer prompts; it is null here. Give emit `--max-prompt-tokens`.
- `dynamic_bs: true` ends a batch when accepted and rejected samples fill it, and a `should_accept`
  function draws further prompts for those that it rejects.
- With several trainer processes that each read the file (not the single controller), rank r of W
  reads rows r, r + W, ...: the batches are the same, dealt over the ranks.
- `total_train_epochs` stays 1: the file holds {handover.passes}.
- `rollout.dump_to_file: true` writes `task_id`, `seqlen` and `prompt_len` of every sample; in a run
  that was not interrupted, `task_id` counts the rows.

AReaL deals requests round robin; there is no setting for the `instance` column, nor for minibatches
of varying size.
"""


AREAL = Trainer(
    name="areal",
    title="AReaL",
    follows=Follows(
        order="settings",
        batches="kept",
        sizes="fixed",
        instances="no",
        partial_rollouts="unsupported",
        checked="1.0.4 (4aef98d8): its dataset and loader run, the rest read",
        proof="contract",
    ),
    settings=settings,
    settings_file="areal.yaml",
    render=yaml,
    notes=notes,
    filters="a should_accept function, dynamic_bs",
)
