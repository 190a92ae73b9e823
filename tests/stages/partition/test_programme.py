"""The dynamic programme against brute force, and what it promises of itself."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.partition import programme
from stages.partition.programme import Cost, cut_freely, cut_into
from stages.partition.recurrences import layers

COSTS = {
    "utilization": lambda key: Cost.utilization(key, key),
    "padding": Cost.padding,
    "seconds": lambda key: Cost.seconds(key, 0.02, 0.001),
}
ADVERSARIAL = {
    "ties": lambda n, rng: rng.integers(1, 4, n),
    "zeros": lambda n, rng: rng.integers(0, 2, n) * rng.integers(0, 9, n),
    "all equal": lambda n, rng: np.full(n, 7),
    "one giant": lambda n, rng: np.append(np.ones(n - 1), 1e9),
    "geometric": lambda n, rng: 2.0 ** np.arange(n),
    "heavy tail": lambda n, rng: rng.lognormal(3, 2, n),
}


def brute_force(cost: Cost, num_prompts: int, lo: int, hi: int, count: int | None) -> float:
    """Least total over all partitions, by trying every set of cuts."""
    best = np.inf
    for num_cuts in range(num_prompts):
        if count not in (None, num_cuts + 1):
            continue
        for cuts in itertools.combinations(range(1, num_prompts), num_cuts):
            ends = np.array([*cuts, num_prompts])
            sizes = np.diff(ends, prepend=0)
            if sizes.min() >= lo and sizes.max() <= hi:
                best = min(best, cost.total(ends))
    return best


@pytest.mark.parametrize("objective", COSTS)
@pytest.mark.parametrize("kind", ADVERSARIAL)
@pytest.mark.parametrize("num_prompts", range(1, 13))
def test_equals_brute_force(objective: str, kind: str, num_prompts: int) -> None:
    rng = np.random.default_rng(num_prompts)
    key = np.sort(ADVERSARIAL[kind](num_prompts, rng).astype(float))
    cost = COSTS[objective](key)
    for lo, hi in ((1, 3), (2, 4), (3, 3), (1, 12)):
        free = cut_freely(cost, lo, hi)
        least = brute_force(cost, num_prompts, lo, hi, None)
        assert (np.inf if free is None else free.total) == pytest.approx(least, rel=1e-12)
        for count in range(1, num_prompts + 1):
            if count * lo <= num_prompts <= count * hi:
                cut = cut_into(cost, lo, hi, count)
                sizes = np.diff(cut.ends, prepend=0)
                assert len(sizes) == count and sizes.min() >= lo and sizes.max() <= hi
                least = brute_force(cost, num_prompts, lo, hi, count)
                assert cut.total == pytest.approx(least, rel=1e-12)
                assert cut.gap < 1e-9


def test_by_hand() -> None:
    """1 1 1 | 9 9 9 pays for 3 x 1 + 3 x 9; utilisation is 1 in both."""
    key = np.array([1.0, 1, 1, 9, 9, 9])
    padding = cut_into(Cost.padding(key), 2, 4, 2)
    assert padding.ends.tolist() == [3, 6] and padding.total == 30
    utilization = cut_into(Cost.utilization(key, key), 2, 4, 2)
    assert utilization.ends.tolist() == [3, 6] and utilization.total == -2
    # A step costs 1 and a prompt nothing: fewest longest-steps, so as few minibatches as allowed.
    seconds = cut_freely(Cost.seconds(key, 1.0, 0.0), 1, 6)
    assert seconds is not None and seconds.ends.tolist() == [6] and seconds.total == 9


def test_no_partition_is_none() -> None:
    assert cut_freely(Cost.padding(np.ones(5)), 2, 2) is None


instances = st.tuples(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 6)
)


@given(instances, st.sampled_from(sorted(COSTS)))
def test_the_price_method_agrees_with_layers_or_tells_its_gap(
    instance: tuple[list[float], int, int], objective: str
) -> None:
    lengths, lo, extra = instance
    key, hi = np.sort(lengths), lo + extra
    cost = COSTS[objective](key)
    for count in range(1, len(key) + 1):
        if not count * lo <= len(key) <= count * hi:
            continue
        exact = cost.total(layers(*programme._arguments(cost), lo, hi, count))
        priced = programme._cut_by_price(cost, lo, hi, count)
        sizes = np.diff(priced.ends, prepend=0)
        assert len(sizes) == count and sizes.min() >= lo and sizes.max() <= hi
        slop = 1e-9 * abs(exact) + 1e-9
        assert priced.bound <= exact + slop  # the bound is one
        assert exact <= priced.total + slop
        if objective != "utilization":  # Monge: the price method is exact
            assert priced.total == pytest.approx(exact, rel=1e-9, abs=1e-9)


def test_large_fixed_count_utilization_is_near_its_bound() -> None:
    key = np.sort(np.random.default_rng(0).lognormal(5, 1, 20_000))
    cut = cut_into(Cost.utilization(key, key), 24, 40, 625)
    assert len(cut.ends) == 625
    assert 0 <= cut.gap < 1e-4


@given(st.lists(st.floats(1, 1e4), min_size=20, max_size=60), st.floats(1.001, 1e3))
def test_scaling_the_lengths_keeps_the_cut(lengths: list[float], factor: float) -> None:
    key = np.sort(lengths)
    count = round(len(key) / 8)
    one = cut_into(Cost.padding(key), 4, 16, count)
    scaled = cut_into(Cost.padding(key * factor), 4, 16, count)
    assert scaled.total == pytest.approx(one.total * factor)


@given(st.lists(st.floats(1, 1e4), min_size=16, max_size=64))
def test_more_slack_never_costs(lengths: list[float]) -> None:
    key = np.sort(lengths)
    count = len(key) // 8
    totals = [cut_into(Cost.padding(key), 8 - k, 9 + k, count).total for k in range(5)
              if count * (8 - k) <= len(key) <= count * (9 + k)]  # fmt: skip
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(totals))
