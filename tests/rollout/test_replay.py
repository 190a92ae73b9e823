"""The measures by hand, and what they must obey."""

import heapq

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.orders import perfect_groups
from rollout.replay import ReplayConfig, decode_steps, measure, plan_of
from rollout.report import ROWS, _verdict
from stages.balance.stage import BalanceConfig
from stages.lengths.table import complete
from stages.partition.stage import PartitionConfig
from stages.tables.io import conform
from stages.tables.schemas import Lengths

CONFIG = ReplayConfig(PartitionConfig(), BalanceConfig(), slots=2)
SAMPLES = {0: np.array([1, 3]), 1: np.array([2, 2]), 2: np.array([10, 4]), 3: np.array([5, 5])}


def test_measures_by_hand() -> None:
    """Group A: {0, 1} (8 useful of 4 x 3); group B: {2} and {3} (14 of 20, 10 of 10)."""
    plan = [[np.array([0, 1])], [np.array([2]), np.array([3])]]
    measures = measure(plan, SAMPLES, CONFIG)
    assert measures.utilization == pytest.approx((8 + 14 + 10) / (12 + 20 + 10))
    first, second = 3 * (0.02 + 4 * 8e-5), (10 + 5) * (0.02 + 2 * 8e-5)
    target = (first + second) * 2 / 3
    assert measures.imbalance == pytest.approx(second / target - 1)
    # Two slots. A: 1 3 | 2 2 end at 1, 3, 3, 5. B: 10 4 | 5 5 end at 10, 4, 9, 14.
    assert measures.step == pytest.approx((5 + 14) / 2)


def test_prompts_without_record_are_passed_over() -> None:
    plan = [[np.array([0, 1, 77])], [np.array([88])]]
    assert measure(plan, SAMPLES, CONFIG).utilization == pytest.approx(8 / 12)


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 8))
def test_decode_steps_between_its_bounds(lengths: list[int], slots: int) -> None:
    steps = decode_steps(lengths, slots)
    work = -(-sum(lengths) // slots)
    longest = max(lengths, default=0)
    assert max(work, longest) <= steps <= work + longest  # Graham's bound on list scheduling
    if len(lengths) <= slots:
        assert steps == longest


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 8))
def test_decode_steps_against_a_clock(lengths: list[int], slots: int) -> None:
    """Tick by tick: every free slot takes the next response."""
    waiting, running, clock = list(reversed(lengths)), [], 0
    while waiting or running:
        while waiting and len(running) < slots:
            heapq.heappush(running, clock + waiting.pop())
        clock += 1
        while running and running[0] <= clock:
            heapq.heappop(running)
    assert decode_steps(lengths, slots) == clock


def test_a_gain_is_claimed_only_beyond_chance() -> None:
    shuffles = np.linspace(0.10, 0.20, 21)
    row = ROWS["utilization"]
    assert _verdict({"schedule": [0.30], "random": shuffles}, row) == "2.00x, a gain"
    assert (
        _verdict({"schedule": [0.16], "random": shuffles}, row) == "no gain (1.07x, within chance)"
    )
    assert _verdict({"schedule": [0.05], "random": shuffles}, row) == "no gain: a loss (0.33x)"
    assert _verdict({"schedule": [0.05], "random": shuffles}, ROWS["step"]) == "0.33x, a gain"


def test_the_perfect_plan_knows_the_longest() -> None:
    """The means order 0 1 2 3, the longest 1 0 3 2: minibatches of two wait for the longest."""
    samples = {0: [1, 80], 1: [41, 42], 2: [20, 200], 3: [111, 112]}
    lengths = pl.DataFrame({"prompt_id": range(4), "mu": 5.0, "sigma": 0.5, "cap": 1000})
    complete_lengths = conform(lengths, Lengths, "x", complete)
    cut, deal = PartitionConfig(batch_size=1, slack=0.0), BalanceConfig(group_size=4)
    recorded = {p: np.array(tokens) for p, tokens in samples.items()}
    groups = perfect_groups(complete_lengths, recorded, cut, deal)
    ((first, second, third, fourth),) = plan_of(groups)
    assert [*first, *second, *third, *fourth] == [2, 3, 0, 1]  # longest first
    pairs = PartitionConfig(batch_size=2, slack=0.0)
    (plan,) = plan_of(perfect_groups(complete_lengths, recorded, pairs, deal))
    assert [sorted(minibatch) for minibatch in plan] == [[2, 3], [0, 1]]
    config = ReplayConfig(pairs, deal)
    assert measure([plan], recorded, config).utilization == pytest.approx(607 / (4 * 200 + 4 * 80))
