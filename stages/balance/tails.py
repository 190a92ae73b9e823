"""When do tail minibatches run?

A tail of round 1 continues what the heads of one window of batch groups left, so it runs in the
next window; a tail of round 2 in the one after; and so on. Inside its window the tails are spread
evenly over the groups, and in a group they come first, those of the highest round ahead: their
deadline is the nearest. What remains after the last group runs in groups of tails alone.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.tables.provenance import Provenance

Ints = NDArray[np.int64]


def recorded_window(provenance: Provenance | None) -> int:
    """Batch groups in a window as partition planned it, by the footers of a chain; else 1."""
    origin = provenance.ancestor("partition") if provenance else None
    window = origin.results.get("tail_window") if origin else None
    return window if type(window) is int and window >= 1 else 1


def place_tails(heads: pl.DataFrame, tails: pl.DataFrame, window: int) -> pl.DataFrame:
    """One epoch in dispatch order, tails among the heads.

    Args:
        heads: The heads of one epoch in dispatch order, with group_id from 0, position and epoch.
        tails: Minibatches of kind tail, those of each round in the order in which they are to run.
        window: Batch groups whose cut responses continue together.

    Returns:
        All of them with group_id and position anew; groups of tails alone stand at the end.
    """
    num_groups = int(heads["group_id"].max()) + 1  # type: ignore[arg-type]
    window = min(window, num_groups)
    tails = tails.sort("round", "minibatch_id")
    group = _groups_of(tails["round"].to_numpy(), num_groups, window)
    tails = _renumbered(tails, heads["minibatch_id"])
    placed = tails.with_columns(
        epoch=pl.lit(heads["epoch"][0], dtype=pl.Int64),
        group_id=pl.Series(_close_gaps(group, num_groups)),
        position=pl.lit(-1, dtype=pl.Int64),
        instance=pl.lit(None, dtype=pl.Int64),
    )
    # Descending rounds put a group's tails before its heads, whose round is 0.
    return (
        pl.concat([heads, placed.select(heads.columns)])
        .sort("group_id", -pl.col("round"), "position", "minibatch_id")
        .with_columns(position=pl.int_range(pl.len(), dtype=pl.Int64))
    )


def _renumbered(tails: pl.DataFrame, taken: pl.Series) -> pl.DataFrame:
    """Tails numbered on from the heads where cutting made heads with their numbers."""
    if not tails["minibatch_id"].is_in(taken.implode()).any():
        return tails
    start = int(taken.max()) + 1  # type: ignore[arg-type]
    numbers = pl.int_range(start, start + len(tails), dtype=pl.Int64, eager=True)
    return tails.with_columns(minibatch_id=numbers)


def _groups_of(round_b: Ints, num_groups: int, window: int) -> Ints:
    """Group in which each tail runs, numbered on past the last group of heads."""
    num_windows = -(-num_groups // window)
    group_b = np.empty(len(round_b), dtype=np.int64)
    for number in np.unique(round_b):
        rows = np.flatnonzero(round_b == number)
        window_b = np.arange(len(rows)) * num_windows // len(rows)
        first_b = np.searchsorted(window_b, window_b)
        count_b = np.searchsorted(window_b, window_b, side="right") - first_b
        step_b = (np.arange(len(rows)) - first_b) * window // count_b
        group_b[rows] = (window_b + number) * window + step_b
    return group_b


def _close_gaps(group_b: Ints, num_groups: int) -> Ints:
    """The groups of tails alone numbered without gaps."""
    late = np.unique(group_b[group_b >= num_groups])
    number_b: Ints = np.where(
        group_b < num_groups, group_b, num_groups + np.searchsorted(late, group_b)
    )
    return number_b
