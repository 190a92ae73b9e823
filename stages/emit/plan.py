"""A schedule spelled out: a row a scheduled prompt, in the order in which a trainer reads them.

Columns of a plan: epoch, group_id, minibatch_id, its instance and predicted_longest, prompt_id,
prompt_hash, and is_repeat, true where `remainder.py` added the row to fill a train batch. The row's
number is its place in the data file.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.tables.errors import AspError, first_few, log
from stages.tables.schemas import IS_HEAD


def spell_out(schedule: pl.DataFrame) -> pl.DataFrame:
    """The plan of a schedule in dispatch order. Tail minibatches hold no prompts yet."""
    heads = schedule.filter(IS_HEAD)
    no_hashes = pl.lit(None, dtype=pl.String).repeat_by("num_prompts")
    return (
        heads.select(
            "epoch",
            "group_id",
            "minibatch_id",
            "instance",
            "predicted_longest",
            "prompt_ids",
            pl.coalesce("prompt_hashes", no_hashes),
            is_repeat=pl.lit(False),
        )
        .explode("prompt_ids", "prompt_hashes", empty_as_null=False)
        .rename({"prompt_ids": "prompt_id", "prompt_hashes": "prompt_hash"})
    )


def spans(plan: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Where each group or minibatch of an epoch lies: first_row and num_rows.

    Repeats belong to none; what was dropped is not there.
    """
    rows = plan.with_row_index("row").filter(~pl.col("is_repeat"))
    return rows.group_by("epoch", *by, maintain_order=True).agg(
        first_row=pl.col("row").min().cast(pl.Int64), num_rows=pl.len().cast(pl.Int64)
    )


def epoch_spans(plan: pl.DataFrame) -> pl.DataFrame:
    """Where each epoch lies, repeats included: first_row and num_rows."""
    return (
        plan.with_row_index("row")
        .group_by("epoch", maintain_order=True)
        .agg(first_row=pl.col("row").min().cast(pl.Int64), num_rows=pl.len().cast(pl.Int64))
    )


def check_against(
    plan: pl.DataFrame, hashes: list[str], schedule_name: str, prompts_name: str
) -> None:
    """Make sure that the prompt file is the one that was scheduled.

    Args:
        plan: Before anything was repeated or dropped.
        hashes: The hash of each row of the prompt file.
        schedule_name: For messages.
        prompts_name: For messages.

    Raises:
        AspError: An epoch does not hold each row exactly once, or a hash differs.
    """
    _check_counts(plan, len(hashes), schedule_name, prompts_name)
    in_file = pl.Series(hashes).gather(plan["prompt_id"])
    is_known = plan["prompt_hash"].is_not_null()
    if not is_known.all():
        log.warning(
            "%s: %d of %d scheduled prompts carry no hash, so it could not be checked that %s is "
            "the file that was scheduled; a prompt_hash column in the lengths table mends that",
            schedule_name, (~is_known).sum(), len(plan), prompts_name,
        )  # fmt: skip
    is_other = is_known & (plan["prompt_hash"] != in_file)
    wrong = (
        plan.with_columns(in_file=in_file).filter(is_other).unique("prompt_id").sort("prompt_id")
    )
    if len(wrong):
        first = wrong.row(0, named=True)
        raise AspError(
            f"{prompts_name}: is not the file that {schedule_name} was made from, or not in that "
            f"order: {len(wrong)} of {len(hashes)} prompts differ, first row {first['prompt_id']} "
            f"(from 0), with hash {first['in_file']} here and {first['prompt_hash']} there; give "
            "the file that `asp predict` read, or run predict and the stages after it again"
        )


def _check_counts(plan: pl.DataFrame, num_rows: int, schedule_name: str, prompts_name: str) -> None:
    for (epoch,), rows in plan.group_by("epoch", maintain_order=True):
        ids = rows["prompt_id"]
        is_here = np.zeros(num_rows, dtype=bool)
        is_here[ids.filter(ids < num_rows).to_numpy()] = True
        beyond = ids.filter(ids >= num_rows).sort()
        if is_here.all() and beyond.is_empty():
            continue
        odd = (
            f"prompt_id {first_few(beyond)} lies beyond its end"
            if len(beyond)
            else f"row {first_few(_where(~is_here))} (from 0) is not scheduled"
        )
        raise AspError(
            f"{prompts_name}: has {num_rows} rows, but {schedule_name} schedules {len(ids)} "
            f"prompts in epoch {epoch}, and {odd}; give the file that `asp predict` read, or cut "
            "it as the lengths table was cut and run predict and the stages after it again"
        )


def _where(mask: NDArray[np.bool_]) -> list[int]:
    return [int(row) for row in np.flatnonzero(mask)]
