"""Time-outs, lost units, lengths that change: by hand, in the cluster file, and in any run."""

from pathlib import Path

import numpy as np
import pytest

from rollout.control.settings import ControlSettings
from rollout.control.uniform import uniform_plan
from rollout.simulator.cluster import Cluster, Engine, GenerationUnit, TrainingUnit
from rollout.simulator.clusterfile import read_cluster
from rollout.simulator.measures import measure
from rollout.simulator.simulate import simulate
from rollout.simulator.troubles import Drift, TimeOuts, UnitOutage
from rollout.simulator.truth import draw_truth
from rollout.simulator.words import of_run
from rollout.simulator.workload import NEVER, Workload, workload_of
from stages.tables.errors import AspError
from tests.rollout.simulator.test_by_hand import A_STEP_A_SECOND, times
from tests.rollout.simulator.test_clusterfile import GOOD, written
from tests.rollout.simulator.test_laws import any_run, present
from tests.rollout.simulator.test_truth import lengths_of


@pytest.mark.parametrize(
    ("engine", "dispatched", "ended", "padding", "skew"),
    [
        # [3 never] until 5, then [2 2]
        ("static", [(0, 0, 0), (5, 0, 1)], [(5, 0, 0), (7, 0, 1)], 2 / 2, 0),
        # slot 0: [3] 3 [2] 5 [2] 7; slot 1: [never] 5
        ("continuous", [(0, 0, 0), (3, 0, 1)], [(5, 0, 0), (7, 0, 1)], 0, 2 / 2),
    ],
)  # fmt: skip
def test_a_response_that_never_ends(
    engine: Engine,
    dispatched: list[tuple[float, int, int]],
    ended: list[tuple[float, int, int]],
    padding: float,
    skew: float,
) -> None:
    """One actor of 2 slots, a time-out of 5 s, steps of one minibatch, training 1 s a token."""
    plan = uniform_plan(range(4), 2, 1, 1)
    cluster = Cluster(
        (GenerationUnit(slots=2),), TrainingUnit(1, 1.0), A_STEP_A_SECOND, engine,
        timeouts=TimeOuts(response_seconds=5),
    )  # fmt: skip
    work = workload_of(plan, [[3], [NEVER], [2], [2]].__getitem__)
    run = simulate(plan, work, cluster, ControlSettings(max_lag=1, refresh="finish"))
    assert times(run, "dispatch") == dispatched
    assert times(run, "timeout") == [(5, 0, 0)]
    assert times(run, "end") == ended
    assert run.steps.select("start_s", "end_s", "tokens").rows() == [(5, 8, 3), (8, 12, 4)]
    assert (run.failed, run.timed_out_responses, run.timed_out_rewards) == ({1}, 1, 0)
    spent = run.ledger_u["GU0"]
    assert (spent.useful, spent.lost) == (7 / 2, 5 / 2)
    assert (spent.padding, spent.skew) == (padding, skew)
    (told,) = of_run(measure(run, 2), 2, 12.0)[3:]
    assert told.startswith("timed out: 1 responses, 0 rewards, in 1 sample groups")


@pytest.mark.parametrize("engine", ["static", "continuous"])
def test_the_clock_runs_on_when_work_is_put_down(engine: Engine) -> None:
    """Weights come at 2, 5, 8, ..., and each time the response that never ends is put down."""
    plan = uniform_plan(range(8), 1, 1, 1)
    cluster = Cluster(
        (GenerationUnit(num_actors=2, slots=1),), TrainingUnit(1, 0.5), A_STEP_A_SECOND, engine,
        timeouts=TimeOuts(response_seconds=9),
    )  # fmt: skip
    work = workload_of(plan, [[2], [NEVER], *[[2]] * 6].__getitem__)
    settings = ControlSettings(max_lag=4, consumption="completion")
    run = simulate(plan, work, cluster, settings)
    assert len(times(run, "unload")) >= 2
    assert [time for time, _, _ in times(run, "timeout")] == [9]


def test_a_reward_that_never_comes() -> None:
    """Two groups of 3 and 2 tokens end at 3 and 5; a reward takes 1 s, a time-out 4 s."""
    plan = uniform_plan(range(2), 1, 2, 1)
    cluster = Cluster(
        (GenerationUnit(num_actors=2, slots=1),), TrainingUnit(1, 1.0), A_STEP_A_SECOND,
        reward_seconds=1.0, timeouts=TimeOuts(reward_seconds=4),
    )  # fmt: skip
    work = Workload([(3,), (5,)], (0, 0), unrewarded=frozenset({0}))
    run = simulate(plan, work, cluster, ControlSettings())
    assert times(run, "timeout") == [(7, None, None)]
    assert run.steps.select("start_s", "end_s", "tokens").rows() == [(7, 12, 5)]
    assert (run.failed, run.timed_out_responses, run.timed_out_rewards) == ({0}, 0, 1)
    assert work.lengths_g == [(3,), (5,)], "a run changes lengths of its own alone"


def test_a_unit_is_lost_and_comes_back() -> None:
    """Two units of one slot: [6] and [5 5]; the second is lost at 4 and comes back at 5."""
    plan = uniform_plan(range(3), 1, 3, 1)
    cluster = Cluster(
        (GenerationUnit(slots=1), GenerationUnit(slots=1)), TrainingUnit(), A_STEP_A_SECOND
    )
    work = workload_of(plan, [[6], [5], [5]].__getitem__)
    run = simulate(plan, work, cluster, ControlSettings(), [UnitOutage(4.0, 1, until_s=5.0)])
    assert times(run, "dispatch") == [(0, 0, 0), (0, 1, 1), (5, 2, 1), (6, 0, 2)]
    assert run.seconds == 11
    assert run.ledger_u["GU1"].lost == 4
    assert run.ledger.total == 11 + 11 - 1 + 11


def test_what_is_dispatched_after_a_drift_is_longer() -> None:
    plan = uniform_plan(range(4), 1, 4, 1)
    cluster = Cluster((GenerationUnit(slots=1),), TrainingUnit(1, 1.0), A_STEP_A_SECOND)
    work = workload_of(plan, [[4], [4], [4], [3]].__getitem__)
    run = simulate(plan, work, cluster, ControlSettings(), [Drift(6.0, 2.0), Drift(9.0, 0.25)])
    assert [time for time, _, _ in times(run, "end")] == [4, 8, 16, 18]
    assert run.steps["tokens"].to_list() == [4 + 4 + 8 + 2]


def test_what_never_comes_is_drawn_apart() -> None:
    """Chances do not change the lengths; the lengths of a run know nothing of them."""
    plain = draw_truth(lengths_of(500), {}, 1, 4, seed=0)
    chances = TimeOuts(9, response_chance=0.1, reward_seconds=9, reward_chance=0.3)
    truth = draw_truth(lengths_of(500), {}, 1, 4, seed=0, timeouts=chances)
    plan = uniform_plan(range(500), 5, 10, 4)
    lengths = np.array(truth.workload(plan).lengths_g)
    never = lengths == NEVER
    assert never.mean() == pytest.approx(0.1, abs=0.02)
    assert np.array_equal(lengths[~never], np.array(plain.workload(plan).lengths_g)[~never])
    assert len(truth.workload(plan).unrewarded) == pytest.approx(150, abs=30)
    assert max(tokens.max() for tokens in truth.samples().values()) <= 1000
    assert not plain.workload(plan).unrewarded


def test_any_run_ends_and_accounts_for_its_troubles() -> None:
    num_failed = 0
    for seed in range(250):
        run, plan, settings, cluster, _ = any_run(seed, is_troubled=True)
        assert sorted(run.lag_g) == list(range(len(plan.prompt_g))), seed
        assert run.max_lag <= settings.max_lag or settings.consumption == "completion", seed
        assert min(run.ledger.as_dict().values()) >= -1e-9 * run.ledger.total, seed
        assert run.ledger.total == pytest.approx(present(run, cluster), rel=1e-9), seed
        assert bool(run.failed) == bool(run.timed_out_responses + run.timed_out_rewards), seed
        num_failed += len(run.failed)
    assert num_failed > 250


TROUBLES = """
[timeouts]
response_seconds = 60
response_chance = 0.01
[[disturbances]]
time_s = 10
lose_unit = 1
until_s = 20
[[disturbances]]
time_s = 30
lengths_factor = 2
"""


def test_the_cluster_file_has_them(tmp_path: Path) -> None:
    found = read_cluster(written(tmp_path, GOOD + TROUBLES))
    assert found.cluster.timeouts == TimeOuts(60.0, 0.01)
    assert found.disturbances == (UnitOutage(10.0, 1, 20.0), Drift(30.0, 2.0))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("response_seconds = 60", "", r"\[timeouts\]: response_chance is 0.01 without a time-out"),
        ("response_chance = 0.01", "response_chance = 2", r"response_chance is 2; give a number"),
        ("lose_unit = 1", "lose_unit = 2", r"\[0\]\.lose_unit is 2; give a unit, from 0 to 1"),
        ("lose_unit = 1\nuntil_s = 20", "", r"lose_unit is null; give one of lose_unit and"),
        ("until_s = 20", "until_s = 10", r"until_s is 10\.0; give a time after time_s, 10"),
        ("lengths_factor = 2", "lengths_factor = 0", r"\[1\]\.lengths_factor is 0; give a number"),
        ("until_s = 20", "untill_s = 20", r"disturbances\[0\]\.untill_s is unknown; \[dist"),
        ("[[disturbances]]\ntime_s = 10", "[disturbances]\ntime_s = 10", "not a TOML file"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TROUBLES
    with pytest.raises(AspError, match=words):
        read_cluster(written(tmp_path, GOOD + TROUBLES.replace(old, new)))


def test_disturbances_that_are_no_list(tmp_path: Path) -> None:
    with pytest.raises(AspError, match=r"disturbances is \[1\]; give a list of tables"):
        read_cluster(written(tmp_path, "disturbances = [1]\n" + GOOD))
