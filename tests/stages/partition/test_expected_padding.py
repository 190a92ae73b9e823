"""Prices of candidate minibatches against the exact expectation and against brute force."""

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.lengths.distribution import LengthDistribution
from stages.lengths.table import complete, distribution
from stages.partition import expected_padding
from stages.partition.expected_padding import price_windows
from stages.partition.stage import PartitionConfig, partition
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Lengths


def exact_price(j: int, size: int, n: int, lengths: LengthDistribution) -> float:
    longest = lengths[j - size : j].expected_longest_of_sets(n, np.array([0, size]))
    return float(size * longest[0])


@settings(max_examples=40)
@given(
    st.integers(1, 40), st.integers(1, 6), st.integers(0, 5), st.sampled_from([1, 3, 8]),
    st.floats(0.1, 1.5), st.sampled_from([0.3, 0.7, 1.0]), st.integers(0, 99),
    st.sampled_from([np.inf, 5.0, 2.0]),
)  # fmt: skip
def test_prices_are_within_half_a_percent(
    num: int, lo: int, extra: int, n: int, spread: float, share: float, seed: int, nu: float
) -> None:
    rng = np.random.default_rng(seed)
    mu, sigma = np.sort(rng.normal(5, 1, num)), spread * rng.uniform(0.5, 1.0, num)
    lengths = LengthDistribution.of(mu, sigma, 4096, share * sigma, nu_above=nu)
    table = price_windows(lengths, n, lo, lo + extra)
    for j, size in itertools.product(range(num + 1), range(lo, lo + extra + 1)):
        if size > j:
            assert table[j, size - lo] == np.inf
        else:
            exact = exact_price(j, size, n, lengths)
            assert table[j, size - lo] == pytest.approx(exact, rel=0.005)


def test_blocks_are_seamless(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    lengths = LengthDistribution.of(np.sort(rng.normal(5, 1, 57)), 0.6, 2048)
    whole = price_windows(lengths, 4, 3, 7)
    monkeypatch.setattr(expected_padding, "BLOCK", 10)
    np.testing.assert_allclose(price_windows(lengths, 4, 3, 7), whole)


def test_the_cut_is_the_best_by_brute_force() -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "prompt_id": range(10),
            "mu": rng.normal(5, 1, 10),
            "sigma": rng.uniform(0.2, 1.0, 10),
            "cap": 2048,
            "samples_per_prompt": 4,
        }
    )
    frame = conform(frame, Lengths, "x", complete)
    config = PartitionConfig(batch_size=3, slack=0.5, by="longest")
    minibatches, results = partition(frame, config)
    ordered = frame.sort("expected_longest")
    lengths = distribution(ordered)
    totals = []
    for cuts in itertools.combinations(range(1, 10), len(minibatches) - 1):
        sizes = np.diff([0, *cuts, 10])
        if sizes.min() >= 2 and sizes.max() <= 4:
            ends = np.cumsum(sizes)
            totals.append(
                sum(exact_price(j, s, 4, lengths) for j, s in zip(ends, sizes, strict=True))
            )
    assert results["objective_value"] == pytest.approx(min(totals), rel=0.005)
    assert results["gap"] == 0.0


def test_prompts_at_risk_of_the_cap_stand_together() -> None:
    """Twelve sure prompts and four that may run to the cap: no sure one waits for those."""
    frame = pl.DataFrame(
        {
            "prompt_id": range(16),
            "mu": [5.0] * 12 + [4.5] * 4,  # the risky ones are shorter in the median
            "sigma": [0.1] * 12 + [2.0] * 4,
            "cap": 4096,
        }
    )
    frame = conform(frame, Lengths, "x", complete)
    minibatches, _ = partition(frame, PartitionConfig(batch_size=4, slack=0.0))
    assert sorted(minibatches["prompt_ids"].to_list()[-1]) == [12, 13, 14, 15]


def test_too_many_candidates_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.partition.objective.MOST_PRICES", 100)
    frame = pl.DataFrame({"prompt_id": range(60), "mu": 5.0, "sigma": 0.5, "cap": 2048})
    frame = conform(frame, Lengths, "x", complete)
    with pytest.raises(AspError, match="smaller --slack or --batch-size, or --objective padding"):
        partition(frame, PartitionConfig(batch_size=8))
