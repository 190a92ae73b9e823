"""How verl is made to follow an ordered file: settings alone, fixed train batches.

Source: `verl/utils/dataset/rl_dataset.py` (the dataset reads the file in order and may filter it),
`verl/trainer/ppo/utils.py: create_rl_sampler` (shuffles unless told not to) and
`verl/trainer/ppo/v1/trainer_base.py` (the loader drops a partial last batch; each epoch replays the
file), all of verl 0.9.1; the same settings hold back to 0.7.1.
"""

import re

from stages.emit.trainer import Handover, Settings, Trainer

FOLDER = "${ASP_DIR}"  # stands for the directory's absolute path, which emit cannot know


def settings(handover: Handover) -> Settings:
    """Hydra overrides, a key and its value each."""
    return {
        "data.train_files": f"{FOLDER}/{handover.data_file}",
        "data.prompt_key": handover.prompt_column,
        "data.shuffle": False,
        "data.filter_overlong_prompts": False,
        "data.train_max_samples": -1,
        "data.train_batch_size": handover.batch.size,
        "actor_rollout_ref.rollout.n": handover.samples_per_prompt,
        "trainer.total_epochs": 1,
    }


def render(values: Settings) -> str:
    """One override a line, nothing else, so that the file can stand on a command line."""
    return "".join(f"{key}={_hydra(value)}\n" for key, value in values.items())


def _hydra(value: object) -> str:
    """A value as Hydra's override grammar reads it; text with other signs in single quotes."""
    if not isinstance(value, str) or re.fullmatch(r"[\w./${}-]+", value, re.ASCII):
        return str(value)
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", value)
    return f"'{escaped}'"


def concerns(handover: Handover) -> list[str]:
    """A prompt that verl would not take, a sample group of one."""
    found = []
    if handover.samples_per_prompt == 1:
        found.append(
            "the schedule is made for 1 sample a prompt, so rollout.n is 1, which gives GRPO no "
            "group: run partition with --samples-per-prompt N, the n of training, and emit again"
        )
    if handover.has_text_prompts:
        found.append(
            "verl takes prompts as lists of {role, content}, but column "
            f"{handover.prompt_column!r} holds text: make it messages, or give verl a dataset "
            "class of your own (data.custom_cls)"
        )
    return found


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    size, samples = handover.batch.size, handover.samples_per_prompt
    return f"""## Run

`overrides.txt` holds one Hydra override a line. `{FOLDER}` in it stands for the absolute path of
this directory; put it in while you pass the lines on (bash, a path without spaces):

```
cd THIS_DIRECTORY
python3 -m verl.trainer.main_ppo $(sed "s|\\{FOLDER}|$PWD|" overrides.txt) YOUR_OTHER_OVERRIDES
```

Of two overrides of one key the later wins, so leave these keys out of your own.

## Traps of verl

- `data.shuffle` is True by default. With True the schedule is lost, silently.
- `data.filter_overlong_prompts=True` drops rows, and one dropped row shifts every later batch.
  Filter before `asp predict`, with the tokenizer, chat template and `data.max_prompt_length` of
  training; a prompt above that limit stops the run (`data.truncation=error`).
- `data.train_max_samples` above 0 takes a part of the file.
- `trainer.total_epochs` stays 1: verl would replay this one order every epoch. The file holds
  {handover.passes}, which verl counts as one epoch.
- A partial last batch is dropped (`drop_last=True`): see Remainder above.
- `actor_rollout_ref.actor.ppo_mini_batch_size` (256 prompts by default) must not be above
  {size}; that, or a divisor of it, makes updates of whole batches. {size} x {samples} responses
  must divide by the number of GPUs.
- `data.gen_batch_size` stays null. The asynchronous modes and dynamic sampling
  (`algorithm.filter_groups.enable`, DAPO) set it to 1 and refill, so that batches form by age or by
  completion.
- `trainer.resume_mode=auto` goes on where the file was left, unless the file has changed.
- `trainer.balance_batch` moves rows between ranks inside a step only; leave it on.

## What is kept, by mode

| mode | order | batch boundaries |
|---|---|---|
| synchronous (`main_ppo`) | yes | yes |
| one_step_off | yes | yes, one step late |
| v1 `colocate_async`, `separate_async` | as submitted | by age only |
| fully_async (`data.train_batch_size=0`, `data.gen_batch_size=1`) | as submitted | no |

verl has no setting for minibatches of varying size, nor for the `instance` column: it spreads
requests over its servers itself.
"""


VERL = Trainer(
    name="verl",
    title="verl",
    checked_versions="0.9.1 (its dataset, sampler and loader run), 0.7.1 to 0.9.0 (source read)",
    settings=settings,
    settings_file="overrides.txt",
    render=render,
    concerns=concerns,
    notes=notes,
)
