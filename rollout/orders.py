"""What would the same prompts look like in another order?

In: a complete lengths table, the settings of a schedule. Out: a groups table, without budgets. The
orders are those that a schedule has to be better than, and the one that it cannot reach.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.balance.stage import BalanceConfig, balance
from stages.lengths import table as lengths_table
from stages.partition.config import PartitionConfig
from stages.partition.memory import tokens_needed
from stages.partition.stage import partition

Ints = NDArray[np.int64]


def shuffled_groups(
    lengths: pl.DataFrame, cut: PartitionConfig, deal: BalanceConfig, seed: int
) -> pl.DataFrame:
    """Prompts at random, as a trainer without a schedule takes them."""
    cut = replace(cut, method="random", seed=seed)
    deal = replace(deal, method="shuffled", seed=seed)
    return balance(partition(lengths, cut)[0], deal, cut.cost_model)[0]


def sorted_groups(lengths: pl.DataFrame, cut: PartitionConfig, deal: BalanceConfig) -> pl.DataFrame:
    """Minibatches of one size, in the order of expected length."""
    cut = replace(cut, method="fixed", by="expected")
    return balance(partition(lengths, cut)[0], replace(deal, method="sorted"), cut.cost_model)[0]


def fixed_groups(lengths: pl.DataFrame, cut: PartitionConfig, deal: BalanceConfig) -> pl.DataFrame:
    """Minibatches of one size, dealt to groups as the settings say."""
    cut = replace(cut, method="fixed")
    return balance(partition(lengths, cut)[0], deal, cut.cost_model)[0]


def perfect_groups(
    lengths: pl.DataFrame, samples: Mapping[int, Ints], cut: PartitionConfig, deal: BalanceConfig
) -> pl.DataFrame:
    """What the same settings give when each prompt's mean and longest are known.

    Prompts are sorted by their longest, which is what a minibatch waits for. Those without a
    recorded response keep their prediction.
    """
    known = pl.DataFrame(
        {
            "prompt_id": list(samples),
            "mu": [float(np.log(max(tokens.mean(), 1.0))) for tokens in samples.values()],
            "expected_longest": [float(tokens.max()) for tokens in samples.values()],
        },
        schema_overrides={"prompt_id": pl.Int64},
    ).with_columns(sigma=pl.lit(0.0), sample_sigma=pl.lit(0.0))
    kept = [
        "prompt_id", "prompt_hash", "prompt_tokens", "domain", "cap", "samples_per_prompt",
        "nu_below", "nu_above", *known.columns[1:],
    ]  # fmt: skip
    perfect = lengths_table.complete(lengths.select(kept).update(known, on="prompt_id"))
    num_samples = int(perfect["samples_per_prompt"][0])
    cut = replace(cut, by="longest")
    if cut.kv_tokens is not None:
        # A response that outgrew what was reserved for it must not leave its prompt without place.
        prompt_p, mean_p = tokens_needed(perfect, num_samples, most_prompts=1)
        largest = math.ceil(num_samples * (prompt_p + mean_p).max())
        cut = replace(cut, kv_tokens=max(cut.kv_tokens, largest))
    minibatches, _ = partition(perfect, cut)
    of_prompts = perfect.select("prompt_id", "expected_longest", "prompt_tokens")
    held = (
        minibatches.select("minibatch_id", pl.col("prompt_ids").alias("prompt_id"))
        .explode("prompt_id", empty_as_null=False)
        .join(of_prompts, on="prompt_id", maintain_order="left")
        .group_by("minibatch_id", maintain_order=True)
        .agg(pl.max("expected_longest"), pl.sum("prompt_tokens"))
    )
    longest_b = held["expected_longest"].to_numpy()
    seconds_b = cut.cost_model.minibatch_seconds(
        longest_b,
        minibatches["num_samples"].cast(pl.Float64).to_numpy(),
        num_samples * held["prompt_tokens"].cast(pl.Float64).to_numpy(),
    )
    minibatches = minibatches.with_columns(
        predicted_longest=pl.Series(longest_b), predicted_seconds=pl.Series(seconds_b)
    )
    return balance(minibatches, deal, cut.cost_model)[0]
