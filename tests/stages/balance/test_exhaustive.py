"""Balance against every assignment there is: what it claims of itself is true, and it is near.

The least largest load is found over subsets: which sets of minibatches can fill the first g groups,
and how heavy is the heaviest of these at best?
"""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.balance.stage import BalanceConfig, balance
from stages.tables.derived import complete_minibatches
from stages.tables.io import conform
from stages.tables.schemas import Minibatches

MOST = 12  # minibatches, so that subsets are few thousand


def minibatches_of(sizes: list[int], loads: list[float]) -> pl.DataFrame:
    starts = np.cumsum(sizes) - sizes
    frame = pl.DataFrame(
        {
            "minibatch_id": range(len(sizes)),
            "prompt_ids": [
                list(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)
            ],
            "num_samples": sizes,
            "predicted_tokens": loads,
            "predicted_longest": loads,
            "predicted_seconds": loads,
            "predicted_utilization": 0.5,
        }
    )
    return conform(frame, Minibatches, "x", complete_minibatches)


class Subsets:
    """Load and weight of every subset of the minibatches: k holds b where bit b of k is set."""

    def __init__(self, loads: list[float], weights: list[int]) -> None:
        self.every = np.arange(1 << len(loads))
        is_in = (self.every[:, None] >> np.arange(len(loads))) & 1
        self.load = is_in @ np.array(loads)
        self.weight = is_in @ np.array(weights)

    def least_largest(self, capacities: list[int], targets: list[float]) -> np.ndarray:
        """For each subset: the least largest load / target if it fills these groups, else inf."""
        least = np.where(self.every == 0, 0.0, np.inf)
        for capacity, target in zip(capacities, targets, strict=True):
            with_group = np.full(len(least), np.inf)
            for inside in self.every[self.weight == capacity]:
                before = self.every[(self.every & inside == 0) & np.isfinite(least)]
                after = before | inside
                larger = np.maximum(least[before], self.load[inside] / target)
                with_group[after] = np.minimum(with_group[after], larger)
            least = with_group
        return least


def least_imbalance(loads: list[float], weights: list[int], capacity: int) -> float:
    """Over all groups, each against its share by weight."""
    full, rest = divmod(sum(weights), capacity)
    capacities = [capacity] * full + [rest] * (rest > 0)
    targets = [sum(loads) * held / sum(weights) or 1.0 for held in capacities]
    found = Subsets(loads, weights).least_largest(capacities, targets)[-1]
    return max(0.0, float(found) - 1)


def least_imbalance_of_full(loads: list[float], weights: list[int], capacity: int) -> float:
    """Over the full train batches alone, against their mean; what they leave is not judged."""
    subsets = Subsets(loads, weights)
    full = sum(weights) // capacity
    largest = subsets.least_largest([capacity] * full, [1.0] * full)
    mean = np.where(subsets.load > 0, subsets.load, 1.0) / full
    return max(0.0, float((largest / mean).min()) - 1)


def check(results: dict[str, object], least: float) -> None:
    """No better assignment than the least, the bound is one, and the gap reaches over to it."""
    imbalance, bound, gap = (
        float(results[name])  # type: ignore[arg-type]
        for name in ("imbalance", "imbalance_bound", "gap")
    )
    assert 0 <= bound <= least + 1e-9
    assert least - 1e-9 <= imbalance
    assert (1 + imbalance) / (1 + least) - 1 <= gap + 1e-9


load_lists = st.lists(
    st.sampled_from([0.0, 1.0, 5.0, 1e6]) | st.floats(0, 100), min_size=1, max_size=MOST
)


@settings(max_examples=40)
@given(load_lists, st.integers(1, 6))
def test_groups_of_minibatches(loads: list[float], size: int) -> None:
    _, results = balance(minibatches_of([1] * len(loads), loads), BalanceConfig(size))
    check(results, least_imbalance(loads, [1] * len(loads), size))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.floats(0.5, 100)), min_size=1, max_size=8),
    st.integers(2, 12),
)
def test_groups_of_prompts(rows: list[tuple[int, float]], prompts: int) -> None:
    """Judged on the minibatches that went into the groups: some are cut to fill a train batch."""
    sizes, loads = map(list, zip(*rows, strict=True))
    groups, results = balance(
        minibatches_of(sizes, loads), BalanceConfig(prompts_per_group=prompts)
    )
    weights, loads = groups["num_prompts"].to_list(), groups["predicted_seconds"].to_list()
    if len(weights) > MOST:
        return
    if sum(weights) % prompts and sum(weights) > prompts:
        check(results, least_imbalance_of_full(loads, weights, prompts))
    else:
        check(results, least_imbalance(loads, weights, prompts))


@pytest.mark.parametrize("spread", [0.2, 0.7, 2.0])
@pytest.mark.parametrize(("num", "size"), [(12, 6), (12, 4), (12, 3), (11, 4), (12, 5)])
def test_the_best_of_all_is_found(num: int, size: int, spread: float) -> None:
    """Or one that is a tenth of a percent from it, from where on no better is looked for."""
    for seed in range(3):
        loads = np.random.default_rng(seed).lognormal(3, spread, num).tolist()
        _, results = balance(minibatches_of([1] * num, loads), BalanceConfig(size))
        least = least_imbalance(loads, [1] * num, size)
        assert float(results["imbalance"]) <= (1 + least) * 1.001 - 1  # type: ignore[arg-type]


def test_by_hand() -> None:
    """Of 6 5 4 | 3 2 1 in pairs 7 7 7; of 8 1 1 2 the eight takes a one, 9 over a mean of 6."""
    assert least_imbalance([6, 5, 4, 3, 2, 1], [1] * 6, 2) == 0
    assert least_imbalance([8, 1, 1, 2], [1] * 4, 2) == pytest.approx(9 / 6 - 1)
    # Two full train batches of 4 prompts from 3 + 1 and 2 + 2; the 2 that are left are not judged.
    assert least_imbalance_of_full([3, 1, 2, 2, 9], [3, 1, 2, 2, 2], 4) == 0
