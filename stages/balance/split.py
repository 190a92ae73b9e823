"""Cut minibatches in two where no choice of whole ones fills a train batch exactly."""

from dataclasses import dataclass, replace
from itertools import count, islice

import numpy as np
import polars as pl

from stages.balance.problem import Ints
from stages.costs.model import CostModel

LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Part:
    """Consecutive prompts of a minibatch: all of them, or what is left or taken."""

    source: int  # row of the minibatch
    first: int
    num_prompts: int


def split_to_fit(
    minibatches: pl.DataFrame, group_b: Ints, excess_g: Ints, cost_model: CostModel
) -> tuple[pl.DataFrame, Ints]:
    """Move prompts from groups with too many to groups with too few, by cutting minibatches.

    Each cut mends at least one group, so there are fewer cuts than groups. The longer prompts of a
    minibatch stay in it, the shorter move. Expected tokens are shared out by prompts and the
    expected longest is kept for both parts: estimates, on the safe side for time.

    Returns:
        The minibatches, the new ones last, and the group of each.
    """
    sizes = minibatches["num_prompts"].to_list()
    parts = [Part(source, 0, size) for source, size in enumerate(sizes)]
    groups = group_b.tolist()
    excess = excess_g.tolist()
    while any(excess):
        over, under = int(np.argmax(excess)), int(np.argmin(excess))
        num_moved = min(excess[over], -excess[under])
        inside = [b for b, g in enumerate(groups) if g == over]
        b = max(inside, key=lambda b: (parts[b].num_prompts, -b))
        part = parts[b]
        if part.num_prompts <= num_moved:
            # The whole minibatch goes, and the rest in the next round.
            num_moved = part.num_prompts
            groups[b] = under
        else:
            parts.append(replace(part, num_prompts=num_moved))
            parts[b] = Part(part.source, part.first + num_moved, part.num_prompts - num_moved)
            groups.append(under)
        excess[over] -= num_moved
        excess[under] += num_moved
    return _take(minibatches, parts, cost_model), np.array(groups, dtype=np.int64)


def _take(minibatches: pl.DataFrame, parts: list[Part], cost_model: CostModel) -> pl.DataFrame:
    """A row a part. Whole minibatches, and columns that don't hold a value a prompt, stay as is."""
    rows = minibatches[[part.source for part in parts]].with_columns(
        minibatch_id=_ids(minibatches, parts)
    )
    size = pl.Series([part.num_prompts for part in parts], dtype=pl.Int64)
    share = size / rows["num_prompts"]
    num_samples = (rows["num_samples"] * share).round().cast(pl.Int64)
    tokens, longest = rows["predicted_tokens"] * share, rows["predicted_longest"]
    paid = num_samples * longest
    seconds = cost_model.minibatch_seconds(
        longest.to_numpy(), num_samples.to_numpy().astype(np.float64)
    )
    is_whole = size == rows["num_prompts"]
    cut = {
        "num_samples": num_samples,
        "predicted_tokens": tokens,
        "predicted_seconds": pl.Series(seconds),
        "predicted_utilization": (tokens / paid)
        .clip(0.0, 1.0)
        .zip_with(paid > 0, pl.Series([1.0])),
    }
    start = pl.Series([part.first for part in parts], dtype=pl.Int64)
    return rows.with_columns(
        *(rows[name].zip_with(is_whole, values).alias(name) for name, values in cut.items()),
        *(
            pl.col(name).list.slice(pl.lit(start), pl.lit(size))
            for name in _columns_a_prompt(minibatches)
        ),
        num_prompts=size,
    )


def _columns_a_prompt(minibatches: pl.DataFrame) -> list[str]:
    """The columns that hold a list with a value a prompt in every row."""
    return [
        name
        for name, dtype in minibatches.schema.items()
        if isinstance(dtype, pl.List)
        and (minibatches[name].list.len() == minibatches["num_prompts"]).all()
    ]


def _ids(minibatches: pl.DataFrame, parts: list[Part]) -> pl.Series:
    """New minibatches are numbered on from the largest number, or from 0 where none are above."""
    ids = minibatches["minibatch_id"]
    num_new = len(parts) - len(ids)
    largest = int(ids.max())  # type: ignore[arg-type]
    used = set(ids)
    start = largest + 1 if largest <= LARGEST_ID - num_new else 0
    new = list(islice((number for number in count(start) if number not in used), num_new))
    return pl.concat([ids, pl.Series(ids.name, new, dtype=ids.dtype)])
