"""What does a trainer get?

In: groups. Out: the canonical schedule, one file that needs no other to be understood; or, for a
trainer, a directory with the user's own rows in that order and the settings that keep it.

    asp emit groups.parquet -o schedule.parquet
    asp emit groups.parquet --prompts prompts.parquet --for verl -o for_verl/
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from stages.emit import readme, report, sidecar
from stages.emit.batches import choose_train_batch
from stages.emit.columns import added_columns, check_free
from stages.emit.overlong import OVERLONG_FILE, leave_out
from stages.emit.plan import check_against, spell_out
from stages.emit.remainder import Rule, treat
from stages.emit.rows import UserRows, hash_prompts, open_rows
from stages.emit.schedule import CanonicalSchedule, make_schedule
from stages.emit.trainer import Handover, Trainer
from stages.emit.trainers import TRAINERS
from stages.tables.derived import complete_groups
from stages.tables.errors import AspError
from stages.tables.io import (
    STDIO,
    check_directory,
    check_output,
    new_directory,
    read_table,
    to_parquet,
    write_table,
)
from stages.tables.prompts import DEFAULT_PROMPT_COLUMN
from stages.tables.schemas import Groups, Schedule

SCHEDULE_FILE = "schedule.parquet"
PLUGINS = Path(__file__).parent / "plugins"  # files that trainers load, not modules of this package


@dataclass(frozen=True)
class EmitConfig:
    """What a hand-over to a trainer needs to know."""

    prompt_column: str = DEFAULT_PROMPT_COLUMN
    remainder: Rule = "keep"  # of prompts that fill no train batch
    train_batch_size: int | None = None  # prompts a step; None: as the groups say
    max_prompt_tokens: int | None = None  # longer prompts are left out; None: no limit
    tokenizer: str | None = None  # of training; counts them


def plan_handover(schedule: CanonicalSchedule, rows: UserRows, config: EmitConfig) -> Handover:
    """Match a schedule with the user's rows, and fit it to fixed train batches.

    Raises:
        AspError: The rows are not those that were scheduled; the samples per prompt vary; nothing
            would be left.
    """
    settings = schedule.provenance.config
    if settings["samples_per_prompt"] is None:
        raise AspError(
            f"{schedule.source}: num_samples / num_prompts differs between minibatches or is no "
            "whole number, but a trainer takes one number of samples per prompt; run partition "
            "with --samples-per-prompt N"
        )
    plan = spell_out(schedule.frame)
    hashes = hash_prompts(rows, config.prompt_column)
    check_against(plan, hashes, schedule.source, rows.name)
    overlong = None
    if config.max_prompt_tokens is not None and config.tokenizer is not None:
        plan, overlong = leave_out(plan, rows, hashes, config.max_prompt_tokens, config.tokenizer)
    batch = choose_train_batch(plan, settings, config.train_batch_size)
    return Handover(
        data_file=rows.data_file,
        prompt_column=config.prompt_column,
        has_text_prompts=rows.has_text_prompts,
        num_epochs=plan["epoch"].n_unique(),
        samples_per_prompt=settings["samples_per_prompt"],
        batch=batch,
        treated=treat(plan, batch.size, config.remainder),
        num_instances=plan["instance"].drop_nulls().n_unique(),
        has_budgets=schedule.frame["token_budget"].count() > 0,
        overlong=overlong,
    )


def run(source: str, output: str, force: bool = False) -> None:
    """Read groups, write the canonical schedule, say what it holds."""
    check_output(output, force)
    schedule = make_schedule(read_table(source, Groups, complete_groups))
    write_table(schedule.frame, Schedule, output, schedule.provenance, force)
    report.say_schedule(schedule)


def run_for_trainer(
    source: str, prompts: str, output: str, trainer: str, config: EmitConfig, force: bool = False
) -> None:
    """Read groups and the user's rows, write the directory for a trainer, say what to mind.

    Args:
        source: Groups table.
        prompts: The prompt file that was scheduled.
        output: The directory.
        trainer: A name in TRAINERS.
        config: How to hand over.
        force: Replace a directory that emit wrote before.
    """
    check_directory(output, force, sidecar.SIDECAR_FILE)
    _check_apart(output, source, prompts)
    schedule = make_schedule(read_table(source, Groups, complete_groups))
    with open_rows(prompts, config.prompt_column) as rows:
        handover = plan_handover(schedule, rows, config)
        with new_directory(output, force, sidecar.SIDECAR_FILE) as folder:
            _fill(folder, schedule, rows, handover, TRAINERS[trainer])
    report.say_handover(TRAINERS[trainer], handover, schedule)


def _check_apart(output: str, *inputs: str) -> None:
    """An input inside the directory would go with it when --force replaces that."""
    for path in inputs:
        if path != STDIO and Path(output).resolve() in Path(path).resolve().parents:
            raise AspError(
                f"{path}: lies in {output}, which --force replaces as a whole; move it, or give "
                "another --output"
            )


def _fill(
    folder: Path,
    schedule: CanonicalSchedule,
    rows: UserRows,
    handover: Handover,
    trainer: Trainer,
) -> None:
    canonical = folder / SCHEDULE_FILE
    canonical.write_bytes(to_parquet(schedule.frame, Schedule, schedule.provenance))
    plan = handover.treated.plan
    added = added_columns(plan, trainer)
    check_free(added, rows.columns(), rows.name)
    rows.write(plan["prompt_id"].to_numpy(), folder, added)
    if handover.overlong is not None:
        handover.overlong.prompts.write_ndjson(folder / OVERLONG_FILE)
    inputs = {
        "groups": schedule.provenance.inputs[0].sha256,
        "prompts": rows.sha256,
        "schedule": hashlib.sha256(canonical.read_bytes()).hexdigest(),
    }
    described = sidecar.describe(trainer, handover, schedule, inputs)
    for name, text in {
        sidecar.SIDECAR_FILE: sidecar.render(described),
        trainer.settings_file: trainer.render(trainer.settings(handover)),
        readme.README_FILE: readme.render(trainer, handover),
        **trainer.files,
        **{name: (PLUGINS / name).read_text(encoding="utf-8") for name in trainer.plugins},
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
