"""What would a plan take on a cluster?

In: a plan, true lengths, a cluster, settings of the Control Unit. Out: a `Run`. The Control Unit
decides; here is only what its commands take. Three ways to run are settings of the same parts:

    asp     the plan as it stands
    async   `consumption="completion"`, a shuffled plan without budgets
    hybrid  a colocated cluster at lag bound 0: generate, switch, train, switch

    run = simulate(plan, workload_of(plan, lengths), cluster, ControlSettings(max_lag=4))
"""

import gc
from collections.abc import Sequence
from functools import partial

from rollout.control.messages import (
    Command,
    Dispatch,
    Hold,
    Reload,
    Requeue,
    Score,
    Train,
    Unload,
)
from rollout.control.plan import Plan
from rollout.control.settings import ControlSettings
from rollout.simulator.cluster import Cluster, GenerationUnit
from rollout.simulator.events import Priority
from rollout.simulator.generation import Generation
from rollout.simulator.run import Run
from rollout.simulator.training import Training
from rollout.simulator.troubles import Disturbance, Drift, Outage, UnitOutage
from rollout.simulator.workload import Workload
from rollout.simulator.world import World
from stages.tables.errors import AspError


def simulate(
    plan: Plan,
    workload: Workload,
    cluster: Cluster,
    settings: ControlSettings,
    disturbances: Sequence[Disturbance] = (),
) -> Run:
    """Run a plan to its last training step.

    Raises:
        AspError: The cluster cannot run it: a minibatch larger than a static actor, a lag bound
            other than 0 where generation and training take turns, all actors lost for good.
    """
    # Millions of small tuples and no cycles among them: the collector would look at them in vain.
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return _Simulation(plan, workload, cluster, settings, disturbances).run()
    finally:
        if is_collecting:
            gc.enable()


class _Simulation:
    """The loop, and who carries out which command."""

    def __init__(
        self,
        plan: Plan,
        workload: Workload,
        cluster: Cluster,
        settings: ControlSettings,
        disturbances: Sequence[Disturbance],
    ) -> None:
        _check(plan, cluster, settings, disturbances)
        self._world = World(plan, workload, cluster, settings, self._carry_out)
        self._generation = Generation(self._world)
        self._training = Training(self._world, self._generation)
        for disturbance in disturbances:
            disturb = partial(self._disturb, disturbance)
            self._world.events.at(disturbance.time_s, Priority.DISTURBANCE, disturb)

    def run(self) -> Run:
        world = self._world
        self._generation.start()
        while not world.control.is_done:
            if not world.events.next():
                raise AspError(
                    f"the run stands still at {world.now_s:g} s: every actor is lost for good"
                )
        self._generation.finish()
        self._training.finish()
        units = world.cluster.generation
        num_devices = sum(unit.num_actors * unit.devices_per_actor for unit in units)
        return Run(
            seconds=world.now_s,
            steps=world.record.steps(),
            lag_g=world.record.lag_g,
            failed=frozenset(world.record.failed),
            timed_out_responses=world.record.timed_out_responses,
            timed_out_rewards=world.record.timed_out_rewards,
            occupancy=world.record.samples(),
            ledger_u=world.ledger_u,
            num_devices=num_devices + self._training.num_devices,
            trace=world.record.trace(),
        )

    def _carry_out(self, command: Command) -> None:
        world, generation = self._world, self._generation
        match command:
            case Dispatch(number, work):
                generation.dispatch(number, work)
            case Hold(number, reason):
                generation.hold(number, reason)
            case Unload(number):
                generation.unload(number)
            case Reload(number, version):
                generation.reload(number, version)
            case Score(groups):
                self._score(groups)
            case Train():
                self._training.train(command)
            case Requeue(work):
                world.record.event(world.now_s, "requeue", "CU", work=work)

    def _disturb(self, disturbance: Disturbance) -> None:
        match disturbance:
            case Outage(_, actor, until_s):
                self._generation.lose(actor, until_s)
            case UnitOutage(_, unit, until_s):
                self._generation.lose_unit(unit, until_s)
            case Drift(_, factor):
                self._world.lengthen(factor)

    def _score(self, groups: tuple[int, ...]) -> None:
        """Rewards come after their time, those that never do are given up after theirs."""
        world, cluster = self._world, self._world.cluster
        never = tuple(group for group in groups if group in world.workload.unrewarded)
        given = tuple(group for group in groups if group not in never) if never else groups
        if given:
            scored = partial(self._scored, given, ())
            world.after(cluster.reward_seconds, Priority.REWARD, scored)
        if never:
            wait = cluster.timeouts.reward_seconds
            assert wait is not None, "a reward that never comes has a time-out"
            world.after(wait, Priority.REWARD, partial(self._scored, never, never))

    def _scored(self, groups: tuple[int, ...], failed: tuple[int, ...]) -> None:
        world = self._world
        for group in failed:
            world.give_up_reward(group)
        if failed:
            world.record.event(world.now_s, "timeout", "TU")
        world.do(world.control.scored(groups, failed))


def check_slots(plan: Plan, units: Sequence[GenerationUnit]) -> None:
    """Refuse minibatches that a static engine cannot hold."""
    largest = max((head.num_samples for head in plan.heads), default=0)
    slots = min(unit.slots for unit in units)
    if largest > slots:
        raise AspError(
            f"a minibatch of {largest} responses does not fit into an actor of {slots} slots: "
            "a static engine holds it whole; give more slots, or a smaller --batch-size"
        )


def _check(
    plan: Plan,
    cluster: Cluster,
    settings: ControlSettings,
    disturbances: Sequence[Disturbance],
) -> None:
    if cluster.engine == "static":
        check_slots(plan, cluster.generation)
    num_outages = sum(not isinstance(each, Drift) for each in disturbances)
    if cluster.is_colocated and (settings.max_lag or num_outages):
        raise AspError(
            f"generation and training take turns on the same devices, with a lag bound of "
            f"{settings.max_lag} and {num_outages} outages: both must be 0"
        )
