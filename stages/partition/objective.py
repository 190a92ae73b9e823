"""What does each candidate minibatch of sorted prompts cost under the chosen objective?"""

import numpy as np
import polars as pl

from stages.costs.model import CostModel
from stages.lengths import table as lengths_table
from stages.partition.config import Key, Objective
from stages.partition.expected_padding import price_windows
from stages.partition.minibatches import prompt_tokens
from stages.partition.programme import Cost, Floats, Ints
from stages.partition.sizes import Sizes
from stages.tables.errors import AspError

UPPER_LEVEL = 0.98  # of the quantile that the sort key `upper` is
LARGEST_EXPONENT = 700.0  # exp of more is no number any longer
MOST_PRICES = 2**27  # candidate minibatches priced, 1 GiB of them


def sort_key(lengths: pl.DataFrame, by: Key) -> pl.Series:
    """The length [tokens] by which prompts are sorted.

    `upper` is not capped: of two prompts that both meet the cap, the one more likely to is longer.
    """
    if by == "upper":
        exponent_p = lengths_table.distribution(lengths).log_quantile(UPPER_LEVEL)
        return pl.Series(np.exp(np.minimum(exponent_p, LARGEST_EXPONENT)))
    return lengths["expected_tokens" if by == "expected" else "expected_longest"]


def ascending(lengths: pl.DataFrame, by: Key) -> Ints:
    """Row numbers in ascending length; equal lengths in the order of their prompt_id."""
    return (
        lengths.select(pl.arg_sort_by(sort_key(lengths, by), "prompt_id"))
        .to_series()
        .to_numpy()
        .astype(np.int64)
    )


def cost_of(
    ordered: pl.DataFrame,
    by: Key,
    objective: Objective,
    model: CostModel,
    num_samples: int,
    sizes: Sizes,
) -> Cost:
    """The objective as a cost to be minimised.

    Args:
        ordered: A complete lengths table in ascending order of the key `by`.
        by: The sort key: the longest of a minibatch where lengths are taken as certain.
        objective: What to price.
        model: Prices seconds.
        num_samples: Responses per prompt, n.
        sizes: Of the candidate minibatches.

    Raises:
        AspError: There are too many candidates to price one by one.
    """
    capped = pl.min_horizontal(sort_key(ordered, by), "cap")
    key_p = ordered.select(capped.cast(pl.Float64)).to_series().to_numpy()
    if objective == "utilization":
        return Cost.utilization(key_p, ordered.get_column("expected_tokens").to_numpy())
    has_spread = bool((ordered["sigma"] > 0).any())
    if objective == "padding" or (objective == "expected-padding" and not has_spread):
        return Cost.padding(key_p)
    if objective == "seconds" and not has_spread and not model.counts_prompts:
        return Cost.seconds(key_p, model.step_seconds, model.sequence_seconds * num_samples)
    hi = min(sizes.hi, len(ordered))
    _check_number(objective, len(ordered), sizes.lo, hi)
    tokens_p = prompt_tokens(ordered)
    if not has_spread:
        table = _price_certain(key_p, tokens_p, num_samples, model, sizes.lo, hi)
        return Cost.tabulated(key_p, table, sizes.lo)
    priced_by = model if objective == "seconds" else None
    distribution = lengths_table.distribution(ordered)
    table = price_windows(distribution, num_samples, sizes.lo, hi, priced_by, tokens_p)
    return Cost.tabulated(key_p, table, sizes.lo)


def _price_certain(
    key_p: Floats, tokens_p: Floats, num_samples: int, model: CostModel, lo: int, hi: int
) -> Floats:
    """As `price_windows`, where each prompt's responses have exactly the key's length."""
    table = np.full((len(key_p) + 1, hi - lo + 1), np.inf)
    tokens_sum = np.concatenate(([0.0], np.cumsum(tokens_p)))
    for size in range(lo, hi + 1):
        held_j = num_samples * (tokens_sum[size:] - tokens_sum[:-size])
        sequences_j = np.full(len(held_j), float(num_samples * size))
        table[size:, size - lo] = model.minibatch_seconds(key_p[size - 1 :], sequences_j, held_j)
    return table


def _check_number(objective: Objective, num_prompts: int, lo: int, hi: int) -> None:
    num_prices = num_prompts * (hi - lo + 1)
    if num_prices > MOST_PRICES:
        raise AspError(
            f"{objective} would price {num_prices:,} minibatches, of {lo} to {hi} "
            "prompts; give a smaller --slack or --batch-size, or --objective padding"
        )
