"""The ladder of token budgets: by hand, against every ladder, against simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.costs.model import CostModel
from stages.lengths.distribution import LengthDistribution
from stages.partition.budgets import STRIDE, BudgetConfig, Engine, Ladder, plan_ladder
from stages.partition.unfinished import Floats, Ints, Unfinished, unfinished

SLOTS_ALONE = CostModel(step_seconds=0.0, sequence_seconds=1.0)  # seconds are slot-steps


def curves_of(mu: Floats, sigma: Floats, cap: float, n: int, size: int) -> tuple[Unfinished, Ints]:
    ends = np.append(np.arange(size, len(mu), size), len(mu))
    return unfinished(LengthDistribution.of(mu, sigma, cap), n, ends), ends


def heavy(num: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return np.sort(rng.normal(5, 0.7, num)), rng.uniform(0.8, 1.2, num)


def plan(
    curves: Unfinished, config: BudgetConfig, prefill: float = 0.02, slots: int = 32
) -> Ladder:
    engine = Engine(SLOTS_ALONE, slots, 0.0, prefill)
    return plan_ladder(curves, engine, np.zeros(len(curves.any_bq)), config)


def test_stragglers_stop_at_the_first_budget_that_the_others_meet() -> None:
    """31 responses of 10 tokens wait for one of 1,000: 32 x 1000 slot-steps, or 32 x 10 + 990."""
    mu = np.log(np.array([10.0] * 31 + [1000.0]))
    curves, _ = curves_of(mu, np.zeros(32), 1000.0, 1, 32)
    ladder = plan(curves, BudgetConfig(max_lag=1), prefill=0.0)
    (tail,) = ladder.rounds
    assert 10 <= tail.carried_tokens <= 13  # the first candidate from 10 on
    assert tail.token_budget is None
    assert tail.num_responses == pytest.approx(1)
    assert tail.longest == pytest.approx(1000 - tail.carried_tokens, rel=0.01)
    assert ladder.seconds_without == pytest.approx(32_000, rel=0.01)
    assert ladder.seconds == pytest.approx(32 * 11 + 990, rel=0.06)


def test_equal_lengths_need_no_budget() -> None:
    curves, _ = curves_of(np.full(64, 6.0), np.zeros(64), 4096.0, 4, 16)
    ladder = plan(curves, BudgetConfig(max_lag=4))
    assert ladder.rounds == ()
    assert ladder.seconds == ladder.seconds_without
    assert ladder.largest_delay == 0
    assert ladder.mean_delay == 0.0


def test_a_lag_bound_of_zero_leaves_no_budgets() -> None:
    curves, _ = curves_of(*heavy(256, 0), 4096.0, 4, 8)
    assert plan(curves, BudgetConfig(max_lag=0)).rounds == ()


def test_dear_prefill_leaves_no_budgets() -> None:
    curves, _ = curves_of(*heavy(256, 0), 4096.0, 4, 8)
    assert plan(curves, BudgetConfig(max_lag=1), prefill=0.02).rounds
    assert plan(curves, BudgetConfig(max_lag=1), prefill=50.0).rounds == ()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 99), st.integers(1, 12), st.integers(1, 6), st.sampled_from([1, 4, 8]),
    st.floats(0, 1),
)  # fmt: skip
def test_a_plan_keeps_its_bounds(
    seed: int, max_lag: int, max_rounds: int, group_size: int, prefill: float
) -> None:
    curves, _ = curves_of(*heavy(200, seed), 4096.0, 4, 8)
    config = BudgetConfig(max_lag=max_lag, max_rounds=max_rounds, group_size=group_size)
    ladder = plan(curves, config, prefill)
    assert ladder.largest_delay <= max_lag
    assert len(ladder.rounds) <= max_rounds
    assert ladder.mean_delay <= ladder.largest_delay
    assert ladder.seconds <= ladder.seconds_without
    budgets = [tail.carried_tokens for tail in ladder.rounds]
    assert budgets == sorted(set(budgets))
    assert [tail.token_budget for tail in ladder.rounds] == [*budgets[1:], None][: len(budgets)]


def test_more_rounds_and_cheaper_prefill_never_cost_more() -> None:
    curves, _ = curves_of(*heavy(400, 3), 4096.0, 4, 8)
    by_rounds = [plan(curves, BudgetConfig(10_000, rounds)).seconds for rounds in range(1, 7)]
    assert all(b <= a * 1.011 for a, b in itertools.pairwise(by_rounds))
    by_prefill = [plan(curves, BudgetConfig(4), p).seconds for p in (0.0, 0.02, 0.1, 1.0)]
    assert all(a <= b * 1.011 for a, b in itertools.pairwise(by_prefill))


def device_time(
    curves: Unfinished, points: list[int], num_windows: int, slots: int, prefill: float
) -> float:
    """Slot-steps of a ladder, by the definition, integral by integral."""
    t, running = curves.t_q, curves.responses_q
    responses_b = curves.responses_bq[:, 0]

    def integral(f: Floats, first: int, last: int) -> float:
        return float(np.trapezoid(f[first : last + 1], t[first : last + 1]))

    total = sum(
        responses * integral(any_q, 0, points[0])
        for responses, any_q in zip(responses_b, curves.any_bq, strict=True)
    )
    for first, last in itertools.pairwise(points):
        in_window = running[first] / num_windows
        if in_window <= 0:
            continue
        held = in_window / max(1, np.ceil(in_window / slots - 1e-9))
        ended = 1 - np.minimum(running / running[first], 1)
        any_q = 1 - ended ** max(held, 1.0)
        total += running[first] * (integral(any_q, first, last) + prefill * t[first])
    return total


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_no_ladder_is_better(rounds: int) -> None:
    curves, _ = curves_of(*heavy(64, 5), 600.0, 2, 8)
    last = len(curves.t_q) - 1
    candidates = range(STRIDE, last, STRIDE)
    every = [
        device_time(curves, [*points, last], 8, 16, 0.05)
        for length in range(rounds + 1)
        for points in itertools.combinations(candidates, length)
    ]
    config = BudgetConfig(max_lag=rounds, max_rounds=rounds, group_size=1)
    ladder = plan(curves, config, prefill=0.05, slots=16)
    assert min(every) <= ladder.seconds * (1 + 1e-9)
    assert ladder.seconds <= min(every) * 1.0100001  # a plan with less lag may be up to 1% dearer


def test_simulated_time_is_the_planned_one() -> None:
    """Lengths are drawn, heads stopped, tails filled with what was cut; slot-steps are counted."""
    mu, sigma = heavy(512, 7)
    cap, n, slots, prefill = 4096.0, 4, 32, 0.05
    curves, ends = curves_of(mu, sigma, cap, n, 8)
    ladder = plan(curves, BudgetConfig(max_lag=10_000, max_rounds=3), prefill, slots)
    assert ladder.rounds
    stops = [tail.carried_tokens for tail in ladder.rounds] + [cap]
    rng, totals = np.random.default_rng(0), []
    for _ in range(60):
        lengths_ps = np.minimum(np.exp(rng.normal(mu[:, None], sigma[:, None], (512, n))), cap)
        heads = [part.ravel() for part in np.split(lengths_ps, ends[:-1])]
        total = sum(len(head) * min(head.max(), stops[0]) for head in heads)
        window_of = np.arange(len(heads)) * ladder.num_windows // len(heads)
        for window in range(ladder.num_windows):
            pool = np.concatenate([h for h, w in zip(heads, window_of, strict=True) if w == window])
            for first, last in itertools.pairwise(stops):
                pool = rng.permutation(pool[pool > first])
                total += prefill * first * len(pool)
                places = max(1, -(-len(pool) // slots))
                for part in np.array_split(pool, places):
                    if len(part):
                        total += len(part) * (min(part.max(), last) - first)
        totals.append(total)
    assert ladder.seconds == pytest.approx(np.mean(totals), rel=0.02)
