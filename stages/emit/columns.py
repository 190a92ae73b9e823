"""Columns that emit adds to the user's rows, so that a row is known again in a trainer's log."""

from collections.abc import Iterable

import polars as pl

from stages.emit.trainer import Trainer
from stages.tables.errors import AspError

FIRST_PRIORITY = 2**32  # of the first row: above what verl gives to prompts that are not planned


def added_columns(plan: pl.DataFrame, trainer: Trainer) -> pl.DataFrame | None:
    """A row a row of the plan: asp_prompt_id, asp_epoch, asp_group_id, asp_minibatch_id.

    Where minibatches are placed also asp_instance, and the column by which the trainer's plugin
    places a row. A repeat says what its original does. None where the trainer reads no further
    columns.
    """
    if not trainer.carries_columns:
        return None
    names = ["prompt_id", "epoch", "group_id", "minibatch_id"]
    is_placed = plan["instance"].count() > 0
    added = plan.select(
        pl.col(*names, *(["instance"] if is_placed else [])).cast(pl.Int64).name.prefix("asp_")
    )
    if not is_placed or trainer.place_column is None:
        return added
    rows = pl.int_range(len(plan), dtype=pl.Int64, eager=True)
    return added.with_columns((FIRST_PRIORITY + rows).alias(trainer.place_column))


def check_free(added: pl.DataFrame | None, taken: Iterable[str], name: str) -> None:
    """Refuse a prompt file with a column of the same name.

    Raises:
        AspError: There is one.
    """
    both = sorted(set(taken) & set(added.columns if added is not None else ()))
    if both:
        raise AspError(
            f"{name}: column {both[0]!r} is one that emit adds; give it another name, or drop it "
            "if an earlier emit wrote it"
        )
