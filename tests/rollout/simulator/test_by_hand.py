"""Runs small enough to follow with a pencil: every event time."""

import polars as pl
import pytest

from rollout.control.settings import ControlSettings
from rollout.control.uniform import uniform_plan
from rollout.simulator.cluster import Cluster, Engine, GenerationUnit, TrainingUnit
from rollout.simulator.run import Run
from rollout.simulator.simulate import simulate
from rollout.simulator.troubles import Outage
from rollout.simulator.workload import workload_of
from stages.costs.model import CostModel
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Trace

A_STEP_A_SECOND = CostModel(step_seconds=1.0, sequence_seconds=0.0)


def times(run: Run, event: str) -> list[tuple[float, int | None, int | None]]:
    """Time, actor and minibatch of each event of a kind."""
    rows = run.trace.filter(pl.col("event") == event)
    return list(rows.select("time_s", "actor", "minibatch_id").iter_rows())


def test_two_actors_and_four_minibatches() -> None:
    """Static, slots of 2, two steps of two minibatches, training half a second a token.

    actor 0   0 [3 5] 5 [6 6] 11 reload 12
    actor 1   0 [2 2] 2 [4 1] 6        12 reload 13
    training          5 .......... 11 ............. 19.5
    """
    lengths = [[3], [5], [2], [2], [4], [1], [6], [6]]
    plan = uniform_plan(range(8), 2, 2, 1)
    cluster = Cluster(
        (GenerationUnit(num_actors=2, slots=2),), TrainingUnit(1, 0.5), A_STEP_A_SECOND, "static",
        reload_seconds=1.0,
    )  # fmt: skip
    settings = ControlSettings(max_lag=1, refresh="finish")
    run = simulate(plan, workload_of(plan, lengths.__getitem__), cluster, settings)
    assert times(run, "dispatch") == [(0, 0, 0), (0, 1, 1), (2, 1, 2), (5, 0, 3)]
    assert times(run, "end") == [(2, 1, 1), (5, 0, 0), (6, 1, 2), (11, 0, 3)]
    assert times(run, "hold: exhausted") == [(6, 1, None), (11, 0, None)]
    assert times(run, "reload") == [(11, 0, None), (12, 1, None)]
    assert times(run, "reloaded") == [(12, 0, None), (13, 1, None)]
    assert run.steps.select("start_s", "end_s").rows() == [(5, 11), (11, 19.5)]
    assert run.lag_g == {0: 0, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 1, 7: 1}
    generation, training = run.ledger_u["GU0"], run.ledger_u["TU"]
    # A slot costs half a second a step: 29 tokens; 2 + 3 slot-steps wait for the longest.
    assert (generation.useful, generation.padding, generation.reload) == (14.5, 2.5, 2)
    assert generation.sorting == 2 * 19.5 - 14.5 - 2.5 - 2
    assert (training.useful, training.sorting) == (14.5, 5)
    occupancy = run.occupancy
    assert occupancy.time_e.tolist() == [0, 0, 0, 2, 2, 5, 5, 6, 11, 11]
    assert occupancy.queued_e.tolist() == [0, 0, 0, 0, 2, 2, 0, 2, 4, 0]
    assert occupancy.position_e.tolist() == [0, 2, 4, 6, 6, 8, 4, 4, 4, 0]
    assert conform(run.trace, Trace, "trace").equals(run.trace)


def test_a_straggler_goes_on_in_a_tail_under_continuous_batching() -> None:
    """One actor of 2 slots; [2 9] stop at 4; [3 3] follow; the 9 goes on at 5 and ends at 10.

    slot 0   [2]  2 [ 3 ] 5 [9, from 4 on  ] 10
    slot 1   [9 until 4] 4 [ 3 ] 7
    """
    plan = uniform_plan(range(4), 2, 1, 1, budgets=[4])
    lengths = [[2], [9], [3], [3]]
    cluster = Cluster(
        (GenerationUnit(slots=2),), TrainingUnit(1, 0.25, publication_seconds=100),
        A_STEP_A_SECOND,
    )  # fmt: skip
    run = simulate(
        plan, workload_of(plan, lengths.__getitem__), cluster, ControlSettings(max_lag=1)
    )
    assert times(run, "dispatch") == [(0, 0, 0), (2, 0, 2), (5, 0, 1)]
    assert times(run, "end") == [(4, 0, 0), (7, 0, 2), (10, 0, 1)]
    assert run.steps.select("step", "start_s", "end_s", "groups", "tokens").rows() == [
        (0, 4, 4.5, 1, 2), (1, 10, 13.75, 3, 15)
    ]  # fmt: skip
    assert run.lag_g == {0: 0, 1: 1, 2: 1, 3: 1}
    generation = run.ledger_u["GU0"]
    assert (generation.useful, generation.skew, generation.padding) == (17 / 2, 3 / 2, 0)


def test_prefill_context_and_speed_are_priced() -> None:
    """Two responses, 3 and 1 tokens, behind prompts of 10: 2 x 10 x 0.1 s of prefill, then steps
    with a context of 20, 22 and then 12 or, static, 24; twice as fast."""
    model = CostModel(1.0, 0.5, prefill_seconds=0.1, kv_seconds=0.01)
    plan = uniform_plan([0, 1], 2, 1, 1)
    for engine, seconds in (
        ("static", 2 + 3 * (1 + 1 + 0.2) + 0.02 * 9 / 2),
        ("continuous", 2 + (2.2 + 0.01) + 2 * (1.5 + 0.11) + 0.01 * 4 / 2),
    ):
        cluster = Cluster((GenerationUnit(slots=2, speed=2.0),), TrainingUnit(), model, engine)  # type: ignore[arg-type]
        work = workload_of(plan, [[3], [1]].__getitem__, lambda prompt: 10)
        run = simulate(plan, work, cluster, ControlSettings())
        assert run.seconds == pytest.approx(seconds / 2)
        assert run.ledger.total == pytest.approx(2 * run.seconds)


@pytest.mark.parametrize("engine", ["static", "continuous"])
def test_unloaded_work_goes_on_where_it_was(engine: Engine) -> None:
    """Two actors; weights come at 5 while the long one has 5 of 20 tokens."""
    plan = uniform_plan(range(3), 1, 1, 1)
    lengths = [[4], [20], [1]]
    cluster = Cluster(
        (GenerationUnit(num_actors=2, slots=1),), TrainingUnit(1, 0.25), A_STEP_A_SECOND, engine,
        reload_seconds=2.0,
    )  # fmt: skip
    run = simulate(
        plan, workload_of(plan, lengths.__getitem__), cluster, ControlSettings(max_lag=1)
    )
    # Actor 0 is idle at 5 and reloads; then it takes the work that actor 1 puts down.
    assert times(run, "reload")[:2] == [(5, 0, None), (7, 1, None)]
    assert times(run, "unload") == [(7, 1, None)]
    assert times(run, "dispatch")[2:] in (
        [(7, 0, 2), (8, 0, 1)], [(7, 0, 1), (9, 1, 2)]
    )  # fmt: skip
    assert run.ledger_u["GU0"].useful == 25
    assert run.max_lag == 1


def test_taking_turns_switches_twice_a_step() -> None:
    """Both devices generate for 5 s, switch, train 8 tokens at 1 device-second each, switch."""
    plan = uniform_plan(range(4), 1, 2, 1)
    lengths = [[3], [5], [2], [4]]
    cluster = Cluster(
        (GenerationUnit(num_actors=2, slots=1),), TrainingUnit(0, 1.0), A_STEP_A_SECOND,
        is_colocated=True, switching_seconds=1.5,
    )  # fmt: skip
    work = workload_of(plan, lengths.__getitem__)
    run = simulate(plan, work, cluster, ControlSettings(max_lag=0))
    assert run.steps.select("start_s", "end_s").rows() == [(5, 10.5), (16, 20.5)]
    assert run.seconds == 22
    assert run.ledger.switching == 2 * 2 * 3
    assert run.ledger.useful == 14 + 14
    assert run.ledger.total == pytest.approx(2 * 22)
    with pytest.raises(AspError, match="both must be 0"):
        simulate(plan, work, cluster, ControlSettings(max_lag=1))


def test_a_lost_actor_costs_what_it_had_made() -> None:
    """One of two actors is lost at 4; the other, done at 5, starts its minibatch from nothing."""
    plan = uniform_plan(range(2), 1, 2, 1)
    cluster = Cluster((GenerationUnit(num_actors=2, slots=1),), TrainingUnit(), A_STEP_A_SECOND)
    work = workload_of(plan, [[6], [5]].__getitem__)
    run = simulate(plan, work, cluster, ControlSettings(), [Outage(4.0, 0)])
    assert run.seconds == 11
    assert (run.ledger_u["GU0"].lost, run.ledger_u["GU0"].useful) == (4, 11)
    back = simulate(plan, work, cluster, ControlSettings(), [Outage(4.0, 0, until_s=4.5)])
    assert back.seconds == 10.5
    with pytest.raises(AspError, match="stands still"):
        simulate(plan, work, cluster, ControlSettings(), [Outage(3.0, 0), Outage(4.0, 1)])


def test_what_cannot_be_simulated_is_refused() -> None:
    plan = uniform_plan(range(4), 4, 1, 2)
    with pytest.raises(AspError, match="prompt 0 has 1 known lengths"):
        workload_of(plan, lambda prompt: [5])
    with pytest.raises(AspError, match="response of 0 tokens"):
        workload_of(plan, lambda prompt: [5, 0])
    work = workload_of(plan, lambda prompt: [5, 5])
    small = Cluster((GenerationUnit(slots=4),), engine="static")
    with pytest.raises(
        AspError, match=r"8 responses does not fit into an actor of 4 slots.* --batch-size"
    ):
        simulate(plan, work, small, ControlSettings())
