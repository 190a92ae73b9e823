"""Which prompts was each training step to get?

In: the directory that `emit --for TRAINER` wrote (`asp.json` tells its batches), or a canonical
schedule, whose groups are the steps, beside the prompts. Tail minibatches hold no prompts before
they run: what they train on left the step it was planned for.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rollout.verify.sidecar import Sidecar, read_sidecar
from stages.emit.plan import check_against, spell_out
from stages.emit.schedule import CanonicalSchedule, make_schedule
from stages.emit.stage import SCHEDULE_FILE
from stages.tables.derived import complete_groups
from stages.tables.errors import AspError
from stages.tables.io import Table, read_table
from stages.tables.prompt_survey import PromptFile, read_prompts
from stages.tables.prompts import DEFAULT_PROMPT_COLUMN
from stages.tables.schemas import IS_HEAD, Groups

REMAINDER = -1  # batch of rows that fill no train batch


@dataclass(frozen=True)
class Planned:
    """Batches of prompts, in the order in which they are to be trained on."""

    name: str  # for messages
    sha256: str  # of the schedule
    # A row a scheduled prompt, in order: batch (from 0, or REMAINDER), epoch, minibatch_id,
    # prompt_hash.
    rows: pl.DataFrame
    minibatches: pl.DataFrame  # heads of the schedule, with what was predicted of them
    prompts: PromptFile
    samples_per_prompt: int
    has_budgets: bool  # prompts may be cut, and trained on in a later step
    trainer: str | None  # that the directory was written for
    settings: dict[str, Any]  # that make this trainer follow it

    @property
    def num_batches(self) -> int:
        """Full ones."""
        return int(self.rows["batch"].to_numpy().max()) + 1


def read_planned(path: str, prompts: str | None, prompt_column: str | None) -> Planned:
    """Read what was handed over.

    Args:
        path: Directory of `emit --for`, or a schedule or groups table.
        prompts: The prompt file that was scheduled; None: the directory's own rows.
        prompt_column: Of the prompt file; None: the directory's, else the default.

    Raises:
        AspError: Neither of the two, no prompts beside a schedule, or prompts that are others.
    """
    if Path(path).is_dir():
        if prompts is not None:
            raise AspError(
                f"{path}: holds the rows that were scheduled; leave out --prompts {prompts}, or "
                f"give {Path(path) / SCHEDULE_FILE} with it"
            )
        return _of_directory(Path(path), prompt_column)
    table = read_table(path, Groups, complete_groups)
    if prompts is None:
        raise AspError(
            f"{path}: a schedule does not hold the prompts; give --prompts FILE, or the directory "
            "that `asp emit --for` wrote"
        )
    schedule = make_schedule(table)
    file = read_prompts(prompts, prompt_column or DEFAULT_PROMPT_COLUMN)
    plan = spell_out(schedule.frame)
    hashes = file.frame["prompt_hash"].to_list()
    check_against(plan, hashes, schedule.source, file.name)
    numbered = plan.with_columns(
        batch=pl.struct("epoch", "group_id").rle_id().cast(pl.Int64),
        prompt_hash=file.frame["prompt_hash"].gather(plan["prompt_id"]),
    )
    return _planned(schedule.source, table.sha256, numbered, schedule, file, None, {})


def _of_directory(folder: Path, prompt_column: str | None) -> Planned:
    sidecar = read_sidecar(folder)
    table = read_table(str(folder / SCHEDULE_FILE), Groups, complete_groups)
    schedule = make_schedule(table)
    file = read_prompts(str(folder / sidecar.data_file), prompt_column or sidecar.prompt_column)
    _check_whole(sidecar, table, schedule, file)
    size = sidecar.train_batch_size
    num_batched = sidecar.num_train_batches * size
    row = pl.int_range(pl.len(), dtype=pl.Int64)
    rows = (
        file.frame.select("prompt_hash")
        .with_columns(
            row=row, batch=pl.when(row < num_batched).then(row // size).otherwise(REMAINDER)
        )
        .join_asof(sidecar.minibatches, left_on="row", right_on="first_row")
        # A row that `--remainder repeat` added lies behind the minibatch before it.
        .with_columns(
            minibatch_id=pl.when(pl.col("row") < pl.col("first_row") + pl.col("num_rows")).then(
                "minibatch_id"
            )
        )
    )
    trainer, settings = sidecar.trainer, sidecar.settings
    return _planned(str(folder), table.sha256, rows, schedule, file, trainer, settings)


def _check_whole(
    sidecar: Sidecar, table: Table, schedule: CanonicalSchedule, file: PromptFile
) -> None:
    """Make sure that the files of the directory are those that were written together.

    A prompt that was edited since would be told as one that the trainer left out.
    """
    if table.sha256 != sidecar.schedule_sha256:
        raise AspError(
            f"{table.name}: is not the schedule that {sidecar.path} was written with; run "
            "`asp emit` again"
        )
    if len(file.frame) != sidecar.num_rows:
        raise AspError(
            f"{file.name}: has {len(file.frame)} rows, but {sidecar.path} says "
            f"{sidecar.num_rows}; run `asp emit` again"
        )
    scheduled = spell_out(schedule.frame).select("prompt_id", scheduled="prompt_hash")
    rows = pl.DataFrame(
        {"prompt_id": sidecar.row_prompt_ids, "prompt_hash": file.frame["prompt_hash"]}
    ).with_row_index("row")
    edited = rows.join(scheduled.unique("prompt_id"), on="prompt_id", maintain_order="left").filter(
        pl.col("prompt_hash") != pl.col("scheduled")
    )
    if len(edited):
        raise AspError(
            f"{file.name}: {len(edited)} of {len(rows)} prompts are not those that were scheduled, "
            f"first row {edited['row'][0]} (from 0); undo what was done to the file, or run "
            "`asp emit` again"
        )


def _planned(
    name: str,
    sha256: str,
    rows: pl.DataFrame,
    schedule: CanonicalSchedule,
    prompts: PromptFile,
    trainer: str | None,
    settings: dict[str, Any],
) -> Planned:
    samples = schedule.provenance.config["samples_per_prompt"]
    if samples is None:
        raise AspError(
            f"{name}: num_samples / num_prompts differs between minibatches or is no whole "
            "number, so it is not known how many responses a prompt is to have"
        )
    if rows["batch"].max() == REMAINDER:
        raise AspError(f"{name}: holds fewer prompts than one train batch, so no step is planned")
    return Planned(
        name=name,
        sha256=sha256,
        rows=rows.select("batch", "epoch", "minibatch_id", "prompt_hash"),
        minibatches=schedule.frame.filter(IS_HEAD),
        prompts=prompts,
        samples_per_prompt=samples,
        has_budgets=schedule.frame["token_budget"].count() > 0,
        trainer=trainer,
        settings=settings,
    )
