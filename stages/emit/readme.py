"""The README of an emitted directory: what each file is, what was settled, the trainer's traps."""

from stages.emit.trainer import Handover, Trainer

README_FILE = "README.md"


def render(trainer: Trainer, handover: Handover) -> str:
    """Markdown. The head tells Hugging Face `load_dataset(DIRECTORY)` which file is the data."""
    settings = trainer.render(trainer.settings(handover))
    indented = "".join(f"    {line}\n" for line in settings.splitlines())
    return f"""---
configs:
- config_name: default
  data_files:
  - split: train
    path: {handover.data_file}
---

# Prompts in schedule order, for {trainer.title}

Versions that this was checked against: {trainer.checked_versions}.

| file | what |
|---|---|
| `{handover.data_file}` | your rows in the order to be trained on, every column as it was |
| `{trainer.settings_file}` | the settings that make {trainer.title} follow that order |
| `asp.json` | where minibatches, groups and repeats lie, and which of your rows each row is |
| `schedule.parquet` | the canonical schedule, the same for every trainer; not training data |

{_counts(handover)}

## Settings

{indented}
## Remainder

{_remainder(handover)}

{trainer.notes(handover)}"""


def _counts(handover: Handover) -> str:
    said = (
        f"{handover.num_rows} rows, {handover.num_train_batches} train batches of "
        f"{handover.batch.size} prompts, {handover.samples_per_prompt} samples a prompt."
    )
    if not handover.num_straddling_groups:
        return (
            f"{said}\nNone of the {handover.num_groups} batch groups straddles two train batches."
        )
    return (
        f"{said}\n{handover.num_straddling_groups} of {handover.num_groups} batch groups straddle "
        "two train batches: steps are not the groups that were balanced.\nTo make every group one "
        f"train batch, run `asp balance --prompts-per-group {handover.batch.size}`."
    )


def _remainder(handover: Handover) -> str:
    treated = handover.treated
    count = treated.num_touched
    if not count:
        return f"`{treated.rule}` touches 0 prompts: the rows fill whole train batches."
    said = {
        "keep": f"{count} rows, the last of the file, fill no train batch: the trainer skips them "
        "in every pass.",
        "repeat": f"{count} rows are repeats of an epoch's first prompts, to fill its last train "
        "batch.",
        "drop": f"{count} prompts are left out of the file, since they fill no train batch.",
    }
    return f"`{treated.rule}`: {said[treated.rule]}\n`asp.json` says which, under `remainder`."
