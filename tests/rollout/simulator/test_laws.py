"""What must hold in any run."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from rollout.control.plan import Plan
from rollout.control.settings import ControlSettings
from rollout.control.uniform import uniform_plan
from rollout.simulator.cluster import Cluster, Engine, GenerationUnit, TrainingUnit
from rollout.simulator.ledger import Ledger
from rollout.simulator.run import Run
from rollout.simulator.simulate import simulate
from rollout.simulator.troubles import Disturbance, Drift, Outage, TimeOuts
from rollout.simulator.workload import NEVER, workload_of
from stages.costs.model import CostModel

COSTS = CostModel(step_seconds=0.02, sequence_seconds=0.00008)


def any_run(
    seed: int, is_troubled: bool = False
) -> tuple[Run, Plan, ControlSettings, Cluster, int]:
    """A small run with any engine, units, costs, settings and losses; the tokens of its plan.

    Troubled: some responses never end, some rewards never come, lengths change.
    """
    rng = random.Random(seed)
    samples, num_rounds = rng.randint(1, 4), rng.choice([0, 0, 1, 2, 3])
    is_colocated = rng.random() < 0.15
    is_in_order = num_rounds > 0 or is_colocated or rng.random() < 0.7
    plan = uniform_plan(
        range(rng.randint(1, 24)), rng.randint(1, 4), rng.randint(1, 5), samples,
        sorted(rng.sample(range(5, 200), num_rounds)),
    )  # fmt: skip
    lengths = [[max(1, int(rng.lognormvariate(4, 1))) for _ in range(samples)] for _ in range(60)]
    units = tuple(
        GenerationUnit(rng.randint(1, 3), rng.choice([1, 2]), 16, rng.choice([0.7, 1, 2]))
        for _ in range(rng.choice([1, 2]))
    )
    outages = [
        Outage(start, actor, start + rng.uniform(1, 20))
        for actor, start in enumerate([rng.uniform(0, 30)] * sum(u.num_actors for u in units))
        if not is_colocated and rng.random() < 0.2
    ]
    cluster = Cluster(
        units,
        TrainingUnit(rng.choice([1, 4]), rng.choice([0, 1e-3]), rng.choice([0, 1.0]),
                     rng.choice([0, 0.5]), rng.choice([0, 0.5, 5])),
        CostModel(0.02, 0.00008, rng.choice([0, 1e-4]), rng.choice([0, 1e-6])),
        rng.choice(["static", "continuous"]),
        rng.choice([0, 0.5, 3]), rng.choice([0, 1]), is_colocated, 1.0,
    )  # fmt: skip
    settings = ControlSettings(
        max_lag=0 if is_colocated else rng.choice([0, 1, 2, 4]),
        pacing=rng.choice(["setpoint", "watermark"]),
        refresh=rng.choice(["unload", "finish", "rolling"]),
        max_reloading=rng.choice([None, 1, 2]),
        carry=rng.choice(["tokens", "tokens", "restart"]),
        consumption="dispatch" if is_in_order else "completion",
    )
    work = workload_of(plan, lengths.__getitem__, lambda prompt: prompt % 3 * 20)
    disturbances: list[Disturbance] = [*outages]
    if is_troubled:
        limits = TimeOuts(rng.choice([5, 20, 100]), reward_seconds=rng.choice([1, 10]))
        cluster = replace(cluster, timeouts=limits)
        lengths_g = [
            tuple(NEVER if rng.random() < 0.1 else length for length in group)
            for group in work.lengths_g
        ]
        work = replace(work, lengths_g=lengths_g, unrewarded=frozenset(range(3, 24, 7)))
        disturbances.append(Drift(rng.uniform(0, 30), rng.choice([0.5, 3])))
    run = simulate(plan, work, cluster, settings, disturbances)
    return run, plan, settings, cluster, sum(map(sum, work.lengths_g))


def test_a_thousand_runs_account_for_every_device_second() -> None:
    for seed in range(1000):
        run, plan, settings, cluster, tokens = any_run(seed)
        assert sorted(run.lag_g) == list(range(len(plan.prompt_g))), seed
        assert int(run.steps["tokens"].sum()) == tokens, seed
        if settings.consumption == "dispatch":
            assert run.max_lag <= settings.max_lag, seed
        assert sum(run.ledger.shares().values()) == pytest.approx(1, abs=1e-9)
        assert min(run.ledger.as_dict().values()) >= -1e-9 * run.ledger.total, seed
        assert run.ledger.total == pytest.approx(present(run, cluster), rel=1e-9), seed


def present(run: Run, cluster: Cluster) -> float:
    """Device-seconds: of the training unit, and of each actor from its coming to its loss."""
    total = 0.0 if cluster.is_colocated else run.seconds * cluster.training.num_devices
    for time, event, unit in run.trace.select("time_s", "event", "unit").iter_rows():
        if event in ("join", "lost"):
            devices = cluster.generation[int(unit[2:])].devices_per_actor
            total += (run.seconds - time) * devices * (1 if event == "join" else -1)
    return total


@pytest.mark.parametrize("engine", ["static", "continuous"])
@pytest.mark.parametrize("refresh", ["unload", "finish", "rolling"])
def test_every_token_is_decoded_once(engine: Engine, refresh: str) -> None:
    """Cut, put down, carried: what is useful is what the tokens cost at full slots."""
    rng = np.random.default_rng(0)
    lengths = np.maximum(1, rng.lognormal(4, 1, (400, 3))).astype(int)
    plan = uniform_plan(range(400), 4, 5, 3, budgets=[80, 200])
    cluster = Cluster(
        (GenerationUnit(4, slots=12),), TrainingUnit(1, 2e-4), COSTS, engine, reload_seconds=0.5
    )
    run = simulate(
        plan, workload_of(plan, lengths.__getitem__), cluster,
        ControlSettings(max_lag=4, refresh=refresh),  # type: ignore[arg-type]
    )  # fmt: skip
    assert run.trace["minibatch_id"].is_in([p[0].minibatch_id for p in plan.places.values()]).any()
    slot = COSTS.step_seconds / 12 + COSTS.sequence_seconds
    assert run.ledger_u["GU0"].useful == pytest.approx(lengths.sum() * slot)


@pytest.mark.parametrize("engine", ["static", "continuous"])
def test_no_actor_rests_while_a_minibatch_could_start(engine: Engine) -> None:
    """One step and nothing to wait for: list scheduling, within one minibatch of its bound."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 300, (300, 1))
    plan = uniform_plan(range(300), 4, 75, 1)
    cluster = Cluster((GenerationUnit(5, slots=4),), TrainingUnit(), COSTS, engine)
    run = simulate(plan, workload_of(plan, lengths.__getitem__), cluster, ControlSettings())
    ledger = run.ledger_u["GU0"]
    busy = ledger.total - ledger.sorting
    longest = 300 * (COSTS.step_seconds + 4 * COSTS.sequence_seconds)
    assert run.seconds <= busy / 5 + longest
    holds = run.trace.filter(run.trace["event"] == "hold: exhausted")["time_s"]
    last = run.trace.filter(run.trace["event"] == "dispatch")["time_s"].max()
    assert holds.min() >= last  # type: ignore[operator]


def balanced_run(num_steps: int, training: float, settings: ControlSettings) -> tuple[Run, float]:
    """Log-normal lengths of sigma 0.5, known; static; training so much longer than generation.

    Minibatches of neighbours in length, dealt to and fro to the steps, the longest first. The
    iteration time that a step cannot be faster than comes with the run.
    """
    rng = np.random.default_rng(0)
    per_step, size, num_actors = 16, 32, 8
    tokens = np.sort(rng.lognormal(6, 0.5, per_step * size * num_steps).astype(int))
    minibatches = np.arange(len(tokens)).reshape(per_step, num_steps, size)
    minibatches[1::2] = minibatches[1::2, ::-1]
    order = minibatches[::-1, rng.permutation(num_steps)].swapaxes(0, 1).ravel()
    slot = COSTS.step_seconds / size + COSTS.sequence_seconds
    cluster = Cluster(
        (GenerationUnit(num_actors, slots=size),),
        TrainingUnit(8, slot * training), COSTS, "static", reload_seconds=0.3,
    )  # fmt: skip
    plan = uniform_plan(order.tolist(), size, per_step, 1)
    work = workload_of(plan, lambda prompt: [int(tokens[prompt])])
    run = simulate(plan, work, cluster, settings)
    return run, float(tokens.sum()) * slot / num_actors * max(1.0, training) / num_steps


@pytest.mark.parametrize("training", [0.9, 1.0, 1.05, 1.1])
def test_near_balance_an_iteration_takes_little_more_than_its_bound(training: float) -> None:
    """Within 5% when the queue is filled; filling takes the time of one more step."""
    num_steps = 60
    run, bound = balanced_run(num_steps, training, ControlSettings(max_lag=4, set_point=2 * 512))
    assert run.iteration_seconds(5) <= 1.05 * bound
    assert run.iteration_seconds() <= 1.05 * bound * (num_steps + 1) / num_steps
    _, swing = run.queue(5)
    assert swing <= 0.5 * 512


@pytest.mark.parametrize("max_lag", [3, 4, 6])
def test_littles_law(max_lag: int) -> None:
    """Mean lag is the mean of what is in flight or queued, in steps."""
    run, _ = balanced_run(80, 1.3, ControlSettings(max_lag=max_lag))
    position, _ = run.position(10)
    assert run.mean_lag(10) == pytest.approx(position / 512, rel=0.15)


def test_equal_input_gives_equal_runs() -> None:
    first, second = any_run(7)[0], any_run(7)[0]
    assert first.trace.equals(second.trace)
    assert first.ledger == second.ledger


def test_steps_follow_each_other_and_ledgers_add_up() -> None:
    run = any_run(3)[0]
    times = run.steps.select("start_s", "end_s").rows()
    assert all(end <= start for (_, end), (start, _) in pairwise(times))
    assert run.ledger == sum(run.ledger_u.values(), Ledger())
