"""A schedule of equal minibatches in an order that is given, as a file for `asp train`."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from rollout.control.uniform import uniform_schedule


def write_schedule(
    path: Path, order: Sequence[int], size: int, minibatches: int, samples: int
) -> None:
    """Cut prompts alike.

    Args:
        path: The file.
        order: prompt_ids in dispatch order.
        size: Prompts of a minibatch.
        minibatches: Of a training step.
        samples: Responses of a prompt.
    """
    unknown = ("predicted_tokens", "predicted_longest", "predicted_seconds")
    uniform_schedule(order, size, minibatches, samples).with_columns(
        *(pl.lit(0.0).alias(name) for name in unknown), predicted_utilization=pl.lit(0.0)
    ).write_parquet(path)
