"""Cut minibatches in two where no choice of whole ones fills a train batch exactly."""

import numpy as np
import polars as pl

from stages.balance.problem import Ints
from stages.costs.model import CostModel


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
    rows = minibatches.to_dicts()
    groups = group_b.tolist()
    excess = excess_g.tolist()
    next_id = int(minibatches["minibatch_id"].max()) + 1  # type: ignore[arg-type]
    while any(excess):
        over, under = int(np.argmax(excess)), int(np.argmin(excess))
        num_moved = min(excess[over], -excess[under])
        inside = [b for b, g in enumerate(groups) if g == over]
        b = max(inside, key=lambda b: (rows[b]["num_prompts"], -b))
        if rows[b]["num_prompts"] <= num_moved:
            # The whole minibatch goes, and the rest in the next round.
            num_moved = rows[b]["num_prompts"]
            groups[b] = under
        else:
            moved, rows[b] = _cut(rows[b], num_moved, next_id, cost_model)
            rows.append(moved)
            groups.append(under)
            next_id += 1
        excess[over] -= num_moved
        excess[under] += num_moved
    return pl.DataFrame(rows, schema=minibatches.schema), np.array(groups, dtype=np.int64)


def _cut(
    row: dict[str, object], num_first: int, new_id: int, cost_model: CostModel
) -> tuple[dict[str, object], dict[str, object]]:
    """The first prompts of a minibatch as a new one, and the rest under the old number."""
    num_prompts = len(row["prompt_ids"])  # type: ignore[arg-type]
    first = {"minibatch_id": new_id} | _part(row, slice(0, num_first), num_prompts, cost_model)
    rest = _part(row, slice(num_first, None), num_prompts, cost_model)
    return row | first, row | rest


def _part(
    row: dict[str, object], kept: slice, num_prompts: int, cost_model: CostModel
) -> dict[str, object]:
    lists = {
        name: value[kept]
        for name, value in row.items()
        if isinstance(value, list) and len(value) == num_prompts
    }
    held = len(lists["prompt_ids"])
    share = held / num_prompts
    num_samples = round(row["num_samples"] * share)  # type: ignore[operator]
    tokens = row["predicted_tokens"] * share  # type: ignore[operator]
    longest = float(row["predicted_longest"])  # type: ignore[arg-type]
    paid = num_samples * longest
    return lists | {
        "num_prompts": held,
        "num_samples": num_samples,
        "predicted_tokens": tokens,
        "predicted_seconds": cost_model.minibatch_seconds(longest, float(num_samples)),
        "predicted_utilization": tokens / paid if paid else 1.0,
    }
