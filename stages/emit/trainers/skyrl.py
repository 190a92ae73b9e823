"""How SkyRL is made to follow an ordered file: it shuffles always, so by its own trainer hook.

Source: `skyrl/train/utils/trainer_utils.py: build_dataloader` (shuffle=True for training),
`skyrl/train/trainer.py: _build_train_dataloader_and_compute_training_steps` (the hook),
`skyrl/train/dataset/dataset.py` and `skyrl/train/entrypoints/main_base.py`, commit a9564572.
"""

from stages.emit.trainer import FOLDER, Follows, Handover, Settings, Trainer

PROMPT_COLUMN = "prompt"  # the only name that its entry point looks for


def settings(handover: Handover) -> Settings:
    """Overrides of `skyrl.train.entrypoints.main_base`."""
    return {
        "data.train_data": f'["{FOLDER}/{handover.data_file}"]',
        "trainer.train_batch_size": handover.batch.size,
        "trainer.policy_mini_batch_size": handover.batch.size,
        "trainer.epochs": 1,
        "trainer.algorithm.dynamic_sampling.type": None,
        "generator.n_samples_per_prompt": handover.samples_per_prompt,
    }


def render(values: Settings) -> str:
    """One override a line, as SkyRL's command line takes them."""
    return "".join(f"{key}={'null' if value is None else value}\n" for key, value in values.items())


def concerns(handover: Handover) -> list[str]:
    """Prompts that SkyRL would not find or not take."""
    found = []
    if handover.prompt_column != PROMPT_COLUMN:
        found.append(
            f"SkyRL reads column {PROMPT_COLUMN!r}, your rows have {handover.prompt_column!r}: "
            "rename it in the prompt file, and emit again"
        )
    if handover.has_text_prompts:
        found.append("SkyRL takes prompts as lists of {role, content}, but yours are text")
    return found


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    size = handover.batch.size
    return f"""## Run

SkyRL shuffles its prompts whatever it is told. `asp_skyrl.py` starts it with a trainer that
overrides the hook for the loader:

```
cd THIS_DIRECTORY
export PYTHONPATH=$PWD:$PYTHONPATH
python3 -m asp_skyrl $(sed "s|\\{FOLDER}|$PWD|" skyrl_overrides.txt) YOUR_OTHER_OVERRIDES
```

in the place of `python3 -m skyrl.train.entrypoints.main_base`. A trainer of your own needs
`asp_skyrl.ScheduledLoader` before it among its bases.

## What is kept

Order and batch boundaries: {size} prompts a step. Dynamic sampling draws whole batches, so a step
starts where a planned one does, but takes prompts of two.

## Traps of SkyRL

- Started without `asp_skyrl`, the schedule is lost, silently.
- Prompts above `trainer.max_prompt_length` are dropped when the file is read; the loader then
  refuses it. Give emit `--max-prompt-tokens` with that limit and the tokenizer of training.
- `trainer.algorithm.dynamic_sampling.type` (`filter`, `replace`) drops prompts after generation.
- `trainer.epochs` stays 1: the file holds {handover.passes}.
- `trainer.fully_async` takes samples as they complete: only the order of submission is kept.
- A partial last batch is dropped: see Remainder above.
- The dump of a batch (`trainer.dump_data_batch`) lacks the rows' numbers.

SkyRL routes by its own policy; there is no setting for the `instance` column, nor for minibatches
of varying size.
"""


SKYRL = Trainer(
    name="skyrl",
    title="SkyRL",
    follows=Follows(
        order="shipped code",
        batches="kept",
        sizes="fixed",
        instances="no",
        partial_rollouts="unsupported",
        checked="a9564572 (after 0.3.0): source read",
        proof="contract",
    ),
    settings=settings,
    settings_file="skyrl_overrides.txt",
    render=render,
    notes=notes,
    concerns=concerns,
    filters="trainer.algorithm.dynamic_sampling.type",
    plugins=("asp_order.py", "asp_sampler.py", "asp_skyrl.py"),
)
