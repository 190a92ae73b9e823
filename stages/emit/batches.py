"""Which fixed train batch does a trainer cut, and do the groups fit it?

A trainer with a fixed batch knows no groups: it cuts the data file every P rows.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from stages.emit.plan import spans


class TrainBatch(NamedTuple):
    """Prompts that a trainer takes for a step, and where the number comes from."""

    size: int
    source: str

    @property
    def is_nominal(self) -> bool:
        """Whether no group size stands behind it."""
        return self.source.startswith("nominal")


def choose_train_batch(
    plan: pl.DataFrame, settings: Mapping[str, Any], asked: int | None
) -> TrainBatch:
    """What the user asked for; else what balance aimed at; else what the groups agree on.

    Groups agree where all but the last of each epoch hold equally many prompts and no last one
    more. Where they don't, the nominal batch_size x group_size (or the mean of the groups, where a
    hand-written schedule does not tell), at most the prompts of an epoch.
    """
    if asked is not None:
        return TrainBatch(asked, "--train-batch-size")
    if settings["prompts_per_group"] is not None:
        return TrainBatch(settings["prompts_per_group"], "balance --prompts-per-group")
    sizes = spans(plan, "group_id")
    agreed = _agreed_size(sizes)
    if agreed is not None:
        return TrainBatch(agreed, "groups")
    batch_size, group_size = settings["batch_size"], settings["group_size"]
    if batch_size is None or group_size is None:
        return TrainBatch(max(1, round(len(plan) / len(sizes))), "nominal: mean of the groups")
    num_prompts = plan["prompt_id"].n_unique()
    return TrainBatch(min(batch_size * group_size, num_prompts), "nominal: batch size x group size")


def _agreed_size(sizes: pl.DataFrame) -> int | None:
    """Prompts of every group but the last ones, which may have fewer; None where they differ."""
    is_last = pl.col("group_id") == pl.col("group_id").max().over("epoch")
    full = sizes.filter(~is_last)["num_rows"]
    standard = full if len(full) else sizes["num_rows"]  # an epoch of a single group has no others
    size = int(standard[0])
    is_agreed = (standard == size).all() and (sizes["num_rows"] <= size).all()
    return size if is_agreed else None


def count_straddling(plan: pl.DataFrame, train_batch_size: int) -> int:
    """Groups that neither lie inside one train batch nor fill whole ones.

    The last group of an epoch needs only to start a batch.
    """
    first, count = pl.col("first_row"), pl.col("num_rows")
    is_inside = first // train_batch_size == (first + count - 1) // train_batch_size
    is_last = pl.col("group_id") == pl.col("group_id").max().over("epoch")
    is_whole = (first % train_batch_size == 0) & ((count % train_batch_size == 0) | is_last)
    return spans(plan, "group_id").filter(~(is_inside | is_whole)).height
