"""How TRL is made to follow an ordered file: settings alone.

Source: `trl/trainer/grpo_config.py` (which batch sizes go together), `trl/trainer/grpo_trainer.py`
and `trl/trainer/utils.py: RepeatSampler` (cuts the dataset into chunks of generation_batch_size /
num_generations prompts, drops an incomplete last one, shuffles unless told not to); for AsyncGRPO
`trl/experimental/async_grpo/` (walks the dataset in order). All of TRL 1.16.0.
"""

import json

from stages.emit.syntax import json_object
from stages.emit.trainer import Follows, Handover, Settings, Trainer

FEWEST_GENERATIONS = 2  # GRPOConfig refuses fewer: a sample group's baseline is its mean
PROMPT_COLUMN = "prompt"  # the only name that TRL looks for
USUAL_MICRO_BATCH = 64  # completions; examples in the README go no higher


def settings(handover: Handover) -> Settings:
    """Arguments of GRPOConfig.

    steps_per_generation is left out because GRPOConfig takes it or generation_batch_size, not
    both; per_device_train_batch_size because it depends on the devices.
    """
    return {
        "shuffle_dataset": False,
        "num_generations": handover.samples_per_prompt,
        "generation_batch_size": handover.batch.size * handover.samples_per_prompt,
        "num_train_epochs": 1,
    }


def concerns(handover: Handover) -> list[str]:
    """A column that TRL would not find, a sample group that GRPOConfig would not take."""
    found = column_concerns(handover)
    if handover.samples_per_prompt < FEWEST_GENERATIONS:
        found.append(
            "TRL refuses num_generations below 2, and the schedule is made for 1 sample a prompt: "
            "run partition with --samples-per-prompt N, the N of training, and the stages after it"
        )
    return found


def column_concerns(handover: Handover) -> list[str]:
    """A column that TRL would not find."""
    if handover.prompt_column == PROMPT_COLUMN:
        return []
    return [
        f"TRL reads column {PROMPT_COLUMN!r}, your rows have {handover.prompt_column!r}: "
        "rename it when you load the data, as the README there shows"
    ]


def _micro_batches(size: int) -> str:
    divisors = [n for n in range(min(size, USUAL_MICRO_BATCH), 0, -1) if size % n == 0]
    return ", ".join(map(str, divisors))


def _loading(handover: Handover) -> str:
    kind = "parquet" if handover.data_file.endswith(".parquet") else "json"
    lines = f"""path = "THIS_DIRECTORY/{handover.data_file}"
dataset = load_dataset("{kind}", data_files=path, split="train")"""
    if handover.prompt_column == PROMPT_COLUMN:
        return lines
    column = json.dumps(handover.prompt_column, ensure_ascii=False)
    return f'{lines}\ndataset = dataset.rename_column({column}, "{PROMPT_COLUMN}")'


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    prompts, samples = handover.batch.size, handover.samples_per_prompt
    size = prompts * samples
    return f"""## Run

```python
import json
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

{_loading(handover)}
settings = json.load(open("THIS_DIRECTORY/grpo_config.json"))
args = GRPOConfig(**settings, per_device_train_batch_size=..., output_dir=...)
GRPOTrainer(model=..., reward_funcs=..., args=args, train_dataset=dataset).train()
```

`generation_batch_size` is {prompts} prompts x {samples} samples = {size} completions, over all
devices. `per_device_train_batch_size` counts completions too; times the number of devices it must
divide {size}. On one device these do: {_micro_batches(size)}.
TRL generates once for {size} completions and trains on them in steps_per_generation =
{size} / (per device x devices) micro-steps; set `gradient_accumulation_steps` to that number for
one optimizer step a batch.

## Traps of TRL

- `shuffle_dataset` is True by default. With True the schedule is lost, silently.
- `num_train_epochs` is 3 by default: TRL would replay this one order three times. The file holds
  {handover.passes}.
- An incomplete last batch is dropped by the sampler: see Remainder above.
- Set neither `steps_per_generation` (it excludes `generation_batch_size`) nor `num_generations`
  alone: a batch would hold another number of prompts.
- `num_iterations` above 1 trains repeatedly on the same batch; batches are kept.
- TRL shuffles the completions of a generation batch before it cuts them into micro-steps; which
  prompts a batch holds is not touched.
- `dataset.shuffle()`, `filter()` or `train_test_split()` in your own script break the order.
- Load the data file by its name, as above, or the whole directory, whose README names it to
  `load_dataset`. `schedule.parquet` is no training data.

TRL has no setting for minibatches of varying size, nor for the `instance` column.
"""


def async_settings(handover: Handover) -> Settings:
    """Arguments of AsyncGRPOConfig, which has no batch of prompts."""
    return {"num_generations": handover.samples_per_prompt, "num_train_epochs": 1}


def async_notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    return f"""## Run

```python
import json
from datasets import load_dataset
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

{_loading(handover)}
settings = json.load(open("THIS_DIRECTORY/async_grpo_config.json"))
args = AsyncGRPOConfig(**settings, output_dir=...)
AsyncGRPOTrainer(model=..., reward_funcs=..., args=args, train_dataset=dataset).train()
```

## What is kept

The order in which prompts are submitted: its worker walks the dataset from first row to last, and
has no shuffle. Samples join a step as they complete, so batch boundaries are not kept.

## Traps of TRL

- Samples older than `max_staleness` (4) weight updates are dropped; long responses are the first
  to age.
- With `token_budget` a step takes as many samples as fit, and drops what does not.
- `num_train_epochs` stays 1: it would replay this one order. The file holds {handover.passes}.
- `dataset.shuffle()`, `filter()` or `train_test_split()` in your own script break the order.
"""


TRL = Trainer(
    name="trl",
    title="TRL",
    follows=Follows(
        order="settings",
        batches="kept",
        sizes="fixed",
        instances="no",
        partial_rollouts="unsupported",
        checked="1.16.0: its GRPOTrainer trained",
        proof="run",
    ),
    settings=settings,
    settings_file="grpo_config.json",
    render=json_object,
    notes=notes,
    concerns=concerns,
)

TRL_ASYNC = Trainer(
    name="trl-async",
    title="TRL (AsyncGRPO)",
    follows=Follows(
        order="settings",
        batches="by completion",
        sizes="varying",
        instances="no",
        partial_rollouts="unsupported",
        checked="1.16.0: source read",
        proof="contract",
    ),
    settings=async_settings,
    settings_file="async_grpo_config.json",
    render=json_object,
    notes=async_notes,
    concerns=column_concerns,
)
