"""Cut minibatches in two where whole ones do not make the groups that are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

import numpy as np
import polars as pl

from stages.balance.problem import Ints
from stages.costs.model import CostModel
from stages.tables.utilization import utilization

LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Part:
    """Consecutive prompts of a minibatch: all of them, or what is left or taken."""

    source: int  # row of the minibatch
    first: int
    num_prompts: int

    def cut(self, num_prompts: int) -> tuple["Part", "Part"]:
        """So many of the shorter prompts, and the longer ones that are left."""
        shorter = replace(self, num_prompts=num_prompts)
        longer = Part(self.source, self.first + num_prompts, self.num_prompts - num_prompts)
        return shorter, longer


def parts_of(minibatches: pl.DataFrame) -> list[Part]:
    """Each minibatch whole."""
    return [Part(row, 0, size) for row, size in enumerate(minibatches["num_prompts"])]


@dataclass(frozen=True)
class Cutter:
    """Cuts the minibatches of a table.

    Expected tokens are shared out by prompts and the expected longest is kept for both parts:
    estimates, on the safe side for time. So is the fixed part of the seconds; the rest is shared
    out too.
    """

    cost_model: CostModel
    columns: tuple[str, ...]  # cut too: they hold a list with a value a prompt

    @classmethod
    def of(cls, minibatches: pl.DataFrame, cost_model: CostModel) -> "Cutter":
        """A cutter for a table, all of it."""
        return cls(cost_model, tuple(columns_a_prompt(minibatches)))

    def take(self, minibatches: pl.DataFrame, parts: Sequence[Part]) -> pl.DataFrame:
        """A row a part; those after the first len(minibatches) get no number yet.

        Whole minibatches, and columns that don't hold a value a prompt, stay as they are.
        """
        ids = minibatches["minibatch_id"].extend_constant(None, len(parts) - len(minibatches))
        rows = minibatches[[part.source for part in parts]].with_columns(minibatch_id=ids)
        size = pl.Series([part.num_prompts for part in parts], dtype=pl.Int64)
        share = size / rows["num_prompts"]
        num_samples = (rows["num_samples"] * share).round().cast(pl.Int64)
        tokens, longest = rows["predicted_tokens"] * share, rows["predicted_longest"]
        seconds = self.cost_model.part_seconds(
            rows["predicted_seconds"].to_numpy(), longest.to_numpy(), share.to_numpy()
        )
        is_whole = size == rows["num_prompts"]
        cut = {
            "num_samples": num_samples,
            "predicted_tokens": tokens,
            "predicted_seconds": pl.Series(seconds),
            "predicted_utilization": pl.Series(
                utilization(tokens.to_numpy(), (num_samples * longest).to_numpy())
            ),
        }
        start = pl.Series([part.first for part in parts], dtype=pl.Int64)
        return rows.with_columns(
            *(rows[name].zip_with(is_whole, values).alias(name) for name, values in cut.items()),
            *(pl.col(name).list.slice(pl.lit(start), pl.lit(size)) for name in self.columns),
            num_prompts=size,
        )


def split_to_fit(
    minibatches: pl.DataFrame, group_b: Ints, excess_g: Ints, cutter: Cutter
) -> tuple[pl.DataFrame, Ints]:
    """Move prompts from groups with too many to groups with too few, by cutting minibatches.

    Each cut mends at least one group, so there are fewer cuts than groups. Of the minibatches with
    enough prompts the one whose longest is shortest is cut, since both its parts take that long.

    Returns:
        The minibatches, the new ones last, and the group of each.
    """
    longest = minibatches["predicted_longest"].to_list()
    parts, groups, excess_g = parts_of(minibatches), group_b.tolist(), excess_g.copy()
    inside: list[set[int]] = [set() for _ in excess_g]
    for b, g in enumerate(groups):
        inside[g].add(b)
    while excess_g.any():
        over, under = int(np.argmax(excess_g)), int(np.argmin(excess_g))
        num_moved = int(min(excess_g[over], -excess_g[under]))
        enough = [b for b in inside[over] if parts[b].num_prompts >= num_moved]
        if enough:
            b = min(enough, key=lambda b: (longest[parts[b].source], b))
        else:
            b = max(inside[over], key=lambda b: (parts[b].num_prompts, -b))
            num_moved = parts[b].num_prompts
        if parts[b].num_prompts == num_moved:
            inside[over].remove(b)
            groups[b] = under
        else:
            shorter, parts[b] = parts[b].cut(num_moved)
            b = len(parts)
            parts.append(shorter)
            groups.append(under)
        inside[under].add(b)
        excess_g[over] -= num_moved
        excess_g[under] += num_moved
    return cutter.take(minibatches, parts), np.array(groups, dtype=np.int64)


def split_in_order(
    minibatches: pl.DataFrame, order_b: Ints, capacity_g: Ints, cutter: Cutter
) -> tuple[pl.DataFrame, Ints]:
    """Fill the groups one after the other with prompts, cutting minibatches at their borders.

    Args:
        minibatches: The table.
        order_b: Its rows, longest first; the longer prompts of a minibatch come first too.
        capacity_g: Prompts of each group.
        cutter: Of the table.

    Returns:
        The minibatches, the new ones last, and the group of each.
    """
    parts, end_g = parts_of(minibatches), np.cumsum(capacity_g)
    end_b = np.empty(len(parts), dtype=np.int64)
    end_b[order_b] = np.cumsum(minibatches["num_prompts"].to_numpy()[order_b])
    start_b = end_b - minibatches["num_prompts"].to_numpy()
    first_b = np.searchsorted(end_g, start_b, side="right")
    last_b = np.searchsorted(end_g, end_b, side="left")
    groups = first_b.tolist()
    for b in np.flatnonzero(first_b < last_b).tolist():
        piece = b
        for g in range(first_b[b], last_b[b]):
            shorter, parts[piece] = parts[piece].cut(int(end_b[b] - end_g[g]))
            piece = len(parts)
            parts.append(shorter)
            groups.append(g + 1)
    return cutter.take(minibatches, parts), np.array(groups, dtype=np.int64)


def columns_a_prompt(minibatches: pl.DataFrame) -> list[str]:
    """The columns that hold a list with a value a prompt in every row."""
    return [
        name
        for name, dtype in minibatches.schema.items()
        if isinstance(dtype, pl.List)
        and (minibatches[name].list.len() == minibatches["num_prompts"]).all()
    ]


def numbered(minibatches: pl.DataFrame) -> pl.DataFrame:
    """Number the new ones on from the largest number, or from 0 where none are above."""
    ids = minibatches["minibatch_id"]
    num_new = ids.null_count()
    if not num_new:
        return minibatches
    largest = int(ids.max())  # type: ignore[arg-type]
    used = set(ids.drop_nulls())
    start = largest + 1 if largest <= LARGEST_ID - num_new else 0
    new = islice((number for number in count(start) if number not in used), num_new)
    filled = [next(new) if number is None else number for number in ids]
    return minibatches.with_columns(minibatch_id=pl.Series(filled, dtype=ids.dtype))
