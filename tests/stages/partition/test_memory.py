"""Minibatches within a memory limit: exact by brute force, the bound kept, the smallest limit."""

import itertools
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.lengths.table import complete
from stages.partition import memory
from stages.partition.config import PartitionConfig
from stages.partition.memory import fill_in_order, largest_sizes, limit, tokens_needed
from stages.partition.programme import Cost, cut_freely, cut_into, feasible_counts
from stages.partition.sizes import Sizes
from stages.partition.stage import partition
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Lengths

COSTS = {
    "utilization": lambda key: Cost.utilization(key, key),
    "padding": Cost.padding,
    "seconds": lambda key: Cost.seconds(key, 0.02, 0.001),
}


def certain(tokens: list[int], prompts: list[int], n: int = 1) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "prompt_id": range(len(tokens)), "prompt_tokens": prompts, "mu": np.log(tokens),
            "sigma": 0.0, "cap": 10_000, "samples_per_prompt": n,
        }
    )  # fmt: skip
    return conform(frame, Lengths, "x", complete)


def test_largest_sizes_by_hand() -> None:
    """Two samples; prompts of 1, 1, 5, 1 tokens, responses of 2, 3, 4, 9; room for 40.

    Ending with the third: 2 (5 + 4) = 18; 2 (6 + 2 x 4) = 28; 2 (7 + 3 x 4) = 38. With the fourth:
    2 (1 + 9) = 20; 2 (6 + 2 x 9) = 48 is too much.
    """
    frame = certain([2, 3, 4, 9], [1, 1, 5, 1], n=2)
    assert largest_sizes(frame, 2, 4, 40, "x").tolist() == [1, 2, 3, 1]
    assert largest_sizes(frame, 2, 2, 40, "x").tolist() == [1, 2, 2, 1]
    assert fill_in_order(np.array([1, 2, 3, 1])).tolist() == [3, 4]


def partitions(num_prompts: int) -> list[list[tuple[int, int]]]:
    return [
        list(itertools.pairwise([0, *cuts, num_prompts]))
        for num_cuts in range(num_prompts)
        for cuts in itertools.combinations(range(1, num_prompts), num_cuts)
    ]


@pytest.mark.parametrize("objective", COSTS)
@pytest.mark.parametrize("num_prompts", [1, 2, 5, 9, 12])
@pytest.mark.parametrize("seed", range(4))
def test_equals_brute_force(objective: str, num_prompts: int, seed: int) -> None:
    """Every set of cuts is tried, and for every count."""
    rng = np.random.default_rng(seed)
    key = np.sort(np.ceil(rng.lognormal(3, 1, num_prompts)))
    held = rng.integers(0, 40, num_prompts)
    frame = certain(key.astype(int).tolist(), held.tolist())
    kv_tokens = int((key + held).max() * rng.uniform(1, 4)) + 1
    lo, hi = min(3, num_prompts), 5
    most = largest_sizes(frame, 1, hi, kv_tokens, "x")
    sizes, limits = limit(Sizes(lo, hi, max(1, num_prompts // 4), True), most)
    cost = replace(COSTS[objective](key), least_p=limits.least_p, most_p=limits.most_p)

    def is_legal(i: int, j: int) -> bool:
        fits = held[i:j].sum() + (j - i) * key[j - 1] <= kv_tokens
        return bool(fits and limits.least_p[i] <= j - i <= hi)

    legal = [cuts for cuts in partitions(num_prompts) if all(is_legal(i, j) for i, j in cuts)]
    totals = [cost.total(np.array([j for _, j in cuts])) for cuts in legal]
    counts = [len(cuts) for cuts in legal]
    assert feasible_counts(limits.least_p, most) == (min(counts), max(counts))
    assert set(counts) == set(range(min(counts), max(counts) + 1))
    free = cut_freely(cost, sizes.lo, sizes.hi)
    assert free is not None and free.total == pytest.approx(min(totals), rel=1e-12)
    for count in set(counts):
        cut = cut_into(cost, sizes.lo, sizes.hi, count)
        least = min(t for t, c in zip(totals, counts, strict=True) if c == count)
        assert cut.total == pytest.approx(least, rel=1e-12) and cut.gap < 1e-9
        assert len(cut.ends) == count


@settings(max_examples=60)
@given(
    st.integers(1, 120), st.floats(1.0, 20.0), st.integers(0, 99),
    st.sampled_from(["expected-padding", "utilization", "padding", "seconds", "fixed", "random"]),
)  # fmt: skip
def test_no_minibatch_needs_more(num: int, room: float, seed: int, way: str) -> None:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "prompt_id": range(num), "prompt_tokens": rng.integers(0, 500, num),
            "mu": rng.normal(5, 1, num), "sigma": rng.uniform(0, 1, num), "cap": 2048,
            "samples_per_prompt": 2,
        }
    )  # fmt: skip
    frame = conform(frame, Lengths, "x", complete)
    config = PartitionConfig(8, 0.25, **(
        {"method": way} if way in ("fixed", "random") else {"objective": way}
    ))  # type: ignore[arg-type]  # fmt: skip
    most = 8 if config.method != "exact" else 10
    prompt, reserved = tokens_needed(frame, 2, min(most, num) if config.method != "exact" else most)
    kv_tokens = int(room * 2 * (prompt + reserved).max()) + 1
    minibatches, results = partition(frame, replace(config, kv_tokens=kv_tokens))
    ids = minibatches["prompt_ids"].to_list()
    assert sorted(itertools.chain(*ids)) == list(range(num))
    for inside in ids:
        need = 2 * (prompt[inside].sum() + len(inside) * reserved[inside].max())
        assert need <= kv_tokens * (1 + 1e-12)
    assert results["num_minibatches"] == len(ids)


def test_a_limit_that_does_not_bind_changes_nothing() -> None:
    frame = certain([int(x) for x in np.random.default_rng(0).integers(1, 900, 200)], [10] * 200)
    free, _ = partition(frame, PartitionConfig())
    limited, results = partition(frame, PartitionConfig(kv_tokens=10**9))
    assert limited.equals(free)
    assert (results["num_small"], results["num_added"]) == (0, 0)


def test_only_where_the_slack_does_not_fit_sizes_fall_below() -> None:
    """Short prompts in eights as before; of the long ones two fit together."""
    frame = certain([10] * 64 + [1000] * 8, [0] * 72)
    config = PartitionConfig(8, 0.25, objective="padding", kv_tokens=2500)
    minibatches, results = partition(frame, config)
    sizes = minibatches.select(pl.col("num_prompts"), longest=pl.col("predicted_longest").round())
    assert sizes.filter(pl.col("longest") == 10)["num_prompts"].min() >= 6
    assert sizes.filter(pl.col("longest") == 1000)["num_prompts"].to_list() == [2] * 4
    assert results["num_small"] == 4 and results["num_added"] == len(minibatches) - 9


def test_the_chance_to_outgrow_the_memory_is_as_promised() -> None:
    """Drawn responses of full minibatches, the samples of a prompt sharing half their spread."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"prompt_id": range(8), "mu": 5.0, "sigma": 0.8, "cap": 10**6,
                          "prompt_tokens": 0}).pipe(conform, Lengths, "x", complete)  # fmt: skip
    _, reserved = tokens_needed(frame, 4, 8)
    part = 0.8 / np.sqrt(2)
    log_length = (
        5.0 + part * rng.normal(size=(20_000, 8, 1)) + part * rng.normal(size=(20_000, 8, 4))
    )
    outgrown = (np.exp(log_length) > reserved[:, None]).any(axis=(1, 2)).mean()
    assert 0 < outgrown < memory.RISK


def test_a_prompt_that_does_not_fit_alone_is_named() -> None:
    frame = certain([10, 500, 20], [1, 2, 3], n=2)
    with pytest.raises(AspError, match=r"x: prompt_id 1 alone needs 1,004 tokens, 2 samples of 2"):
        partition(frame, PartitionConfig(kv_tokens=1003), "x")
    partition(frame, PartitionConfig(kv_tokens=1005), "x")


def test_a_limit_needs_the_prompts_lengths() -> None:
    frame = certain([10, 20], [1, 2]).with_columns(prompt_tokens=pl.Series([1, None]))
    with pytest.raises(AspError, match=r"'prompt_tokens' is null or missing for 1 of 2 prompts"):
        partition(frame, PartitionConfig(kv_tokens=100), "x")
