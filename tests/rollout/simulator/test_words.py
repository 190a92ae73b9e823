"""What is said of runs: shares that add up, and no gain without evidence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.control.settings import ControlSettings
from rollout.control.uniform import uniform_plan
from rollout.simulator.cluster import Cluster, GenerationUnit, TrainingUnit
from rollout.simulator.ledger import Ledger
from rollout.simulator.measures import Measures
from rollout.simulator.modes import in_mode
from rollout.simulator.words import of_comparison, ratio_interval

seconds = st.floats(0, 1e9)


@given(st.floats(1e-3, 1e9), st.lists(seconds, min_size=7, max_size=7))
def test_shares_in_tenths_of_a_percent_sum_to_a_hundred(useful: float, rest: list[float]) -> None:
    ledger = Ledger(useful, *rest)
    tenths = ledger.tenths()
    assert sum(tenths.values()) == 1000
    for name, share in ledger.shares().items():
        assert abs(tenths[name] - 1000 * share) < 1 + 1e-6


def test_an_interval_by_hand() -> None:
    """Logs of the ratios 0, 1, 2: mean 1, deviation 1, t(2 degrees, 97.5%) = 4.3027."""
    ratios = np.exp([0.0, 1.0, 2.0])
    ratio, low, high = ratio_interval(ratios, np.ones(3))
    reach = 4.302653 / np.sqrt(3)
    assert np.log([ratio, low, high]) == pytest.approx([1, 1 - reach, 1 + reach], abs=1e-5)


def test_a_gain_is_claimed_only_where_the_interval_is_clear_of_1() -> None:
    def runs(*seconds: float) -> list[Measures]:
        ledger = Ledger(useful=3, skew=1)
        return [Measures(each, 1.0, 1.0, 1.0, 1.0, 1, ledger, 0, 0, 0) for each in seconds]

    ways = {
        "async": runs(10, 11, 12), "bounded": runs(20, 22, 24), "faster": runs(5, 5.6, 6),
        "slower": runs(20, 22, 24.5),
        "alike": runs(9, 11.5, 12.5),
    }  # fmt: skip
    _, reference, bounded, faster, slower, alike, *_ = of_comparison(
        {"static": ways}, 3
    ).splitlines()
    assert reference.split()[-2:] == ["skew", "25.0%"]
    assert reference.count("x (") == 1 and "2.00x" in reference
    assert bounded.count("x (") == 1 and "0.50x" in bounded
    assert faster.count("a gain") == 2
    assert slower.count("a loss") == 1 and slower.count("no gain") == 1
    assert alike.count("no gain") == 1 and alike.count("a gain") == 1


def test_hybrid_has_all_devices_and_no_more() -> None:
    """5 devices of training beside actors of 2: two more actors, and one of half the speed."""
    plan = uniform_plan(range(4), 1, 1, 1, budgets=[5])
    cluster = Cluster((GenerationUnit(3, 2, 8, 1.5),), TrainingUnit(5, publication_seconds=9))
    hybrid_plan, hybrid, settings = in_mode("hybrid", plan, cluster, ControlSettings(max_lag=2))
    assert hybrid.generation[1:] == (GenerationUnit(2, 2, 8, 1.5), GenerationUnit(1, 1, 8, 0.75))
    assert hybrid.is_colocated and hybrid.training.publication_seconds == 0
    assert settings.max_lag == 0 and hybrid_plan.num_rounds == 0
    _, same, settings = in_mode("async", plan, cluster, ControlSettings(max_lag=2))
    assert same == cluster and settings.consumption == "completion"
