"""The README of an emitted directory: what each file is, what was settled, the trainer's traps."""

from stages.emit.overlong import OVERLONG_FILE
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

{_checked(trainer)}

| file | what |
|---|---|
{_files(trainer, handover)}
{_counts(handover)}

## Settings

{indented}
## Remainder

{_remainder(trainer, handover)}

{_overlong(handover)}{trainer.notes(handover)}"""


def _checked(trainer: Trainer) -> str:
    how = {
        "run": "What decides the order was run over files like these",
        "contract": "This rests on its source, which was read; it was not trained with",
    }
    return f"Checked: {trainer.follows.checked}. {how[trainer.follows.proof]}."


def _files(trainer: Trainer, handover: Handover) -> str:
    added = " Columns `asp_*` say where a row belongs." if trainer.carries_columns else ""
    files = {
        handover.data_file: f"your rows in the order to be trained on, as they were.{added}",
        trainer.settings_file: f"the settings that make {trainer.title} follow that order",
        "asp.json": "where minibatches, groups and repeats lie, and which of your rows each row is",
        "schedule.parquet": "the canonical schedule, the same for every trainer; not training data",
    }
    if handover.overlong is not None:
        files[OVERLONG_FILE] = "the prompts that were left out, with their tokens"
    files |= dict.fromkeys(
        trainer.plugins, "code that the trainer loads; keep it in this directory"
    )
    files |= dict.fromkeys(trainer.files, f"what tells {trainer.title} of that code")
    return "".join(f"| `{name}` | {what} |\n" for name, what in files.items())


def _overlong(handover: Handover) -> str:
    overlong = handover.overlong
    if overlong is None:
        return ""
    return (
        f"## Prompts left out\n\n{len(overlong.prompts)} prompts have more than "
        f"{overlong.max_prompt_tokens} tokens ({overlong.tokenizer}) and are in no row; "
        f"`{OVERLONG_FILE}` names them.\n{overlong.num_moved} rows of the last groups stand in "
        "their places, so that the other groups keep their sizes.\n`schedule.parquet` is the "
        "schedule as it was before.\n\n"
    )


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


def _remainder(trainer: Trainer, handover: Handover) -> str:
    treated = handover.treated
    count = treated.num_touched
    if not count:
        return f"`{treated.rule}` touches 0 prompts: the rows fill whole train batches."
    said = {
        "keep": f"{count} rows, the last of the file, fill no train batch: the trainer "
        + (
            "skips them in every pass."
            if trainer.skips_remainder
            else "makes a smaller last step of them."
        ),
        "repeat": f"{count} rows are repeats of an epoch's first prompts, to fill its last train "
        "batch.",
        "drop": f"{count} prompts are left out of the file, since they fill no train batch.",
    }
    return f"`{treated.rule}`: {said[treated.rule]}\n`asp.json` says which, under `remainder`."
