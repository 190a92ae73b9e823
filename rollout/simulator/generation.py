"""What do the actors do, and what is their time spent on?"""

import math
from dataclasses import dataclass
from functools import partial

from rollout.control.messages import Command, Work
from rollout.simulator.cluster import GenerationUnit
from rollout.simulator.continuous import ContinuousEngine
from rollout.simulator.engines import Engine
from rollout.simulator.events import Priority
from rollout.simulator.price import Price
from rollout.simulator.static import StaticEngine
from rollout.simulator.world import World


@dataclass
class Actor:
    """An engine of a generation unit."""

    number: int
    unit: str
    kind: GenerationUnit
    engine: Engine
    schedule: int = 0  # number of the latest entry for it in the heap; older ones are void
    idle_since_s: float | None = None
    reload_since_s: float | None = None


class Generation:
    """All generation units."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._actors: dict[int, Actor] = {}
        self._num_joined = 0

    @property
    def num_devices(self) -> int:
        """Of the actors that are there."""
        return sum(actor.kind.devices_per_actor for actor in self._actors.values())

    def start(self) -> None:
        """All actors join."""
        for number, unit in enumerate(self._world.cluster.generation):
            for _ in range(unit.num_actors):
                self._join(f"GU{number}", unit, instance=self._num_joined)

    def finish(self) -> None:
        """Enter what the actors are doing when the run ends."""
        for actor in self._actors.values():
            self._leave_idle(actor)
            self._leave_reload(actor)
            actor.engine.stop(self._world.now_s)
            self._world.ledger_u[actor.unit] += actor.engine.spent

    # Commands ---------------------------------------------------------------------------------

    def dispatch(self, number: int, work: Work) -> None:
        """An actor starts a minibatch."""
        actor = self._actors[number]
        self._leave_idle(actor)
        world = self._world
        is_free = actor.engine.start(work, world.now_s, world.deadline_s(work))
        self._log("dispatch", actor, work)
        self._schedule(actor)
        if is_free:
            self._world.do(self._world.control.free(number))

    def hold(self, number: int, reason: str) -> None:
        """An actor stays free."""
        self._log(f"hold: {reason}", self._actors[number])

    def unload(self, number: int) -> None:
        """An actor puts down all it has."""
        actor = self._actors[number]
        unfinished = actor.engine.stop(self._world.now_s)
        self._schedule(actor)
        actor.idle_since_s = self._world.now_s
        self._log("unload", actor)
        self._world.do(self._world.control.unloaded(number, unfinished))

    def reload(self, number: int, version: int) -> None:
        """An actor loads weights; colocated, they change hands while the devices switch."""
        actor, cluster = self._actors[number], self._world.cluster
        self._leave_idle(actor)
        actor.reload_since_s = self._world.now_s
        self._log("reload", actor)
        seconds = 0.0 if cluster.is_colocated else cluster.reload_seconds
        self._world.after(seconds, Priority.WEIGHTS, partial(self._reloaded, actor, version))

    def give_way(self, training: float, switching: float, export: float) -> None:
        """Colocated: the actors' devices train for so many seconds each."""
        for actor in self._actors.values():
            self._leave_idle(actor)
            spent, devices = self._world.ledger_u[actor.unit], actor.kind.devices_per_actor
            spent.useful += training * devices
            spent.switching += switching * devices
            spent.reload += export * devices

    def take_back(self) -> None:
        """Colocated: the devices generate again."""
        for actor in self._actors.values():
            actor.idle_since_s = self._world.now_s

    # Events -----------------------------------------------------------------------------------

    def lose(self, number: int, until_s: float | None) -> None:
        """An actor is lost with all that it has; a new one may come in its place."""
        actor = self._actors.pop(number)
        self._leave_idle(actor)
        self._leave_reload(actor)
        actor.engine.lose(self._world.now_s)
        actor.schedule += 1
        self._world.ledger_u[actor.unit] += actor.engine.spent
        self._log("lost", actor)
        if until_s is not None:
            back = partial(self._join, actor.unit, actor.kind, instance=actor.number)
            self._world.events.at(until_s, Priority.DISTURBANCE, back)
        self._world.do(self._world.control.lost(number))

    def lose_unit(self, unit: int, until_s: float | None) -> None:
        """All actors of a unit are lost."""
        for actor in [each for each in self._actors.values() if each.unit == f"GU{unit}"]:
            self.lose(actor.number, until_s)

    def _join(self, unit: str, kind: GenerationUnit, instance: int) -> None:
        world = self._world
        price = Price.of(world.cluster.cost_model, kind.speed, kind.slots, kind.devices_per_actor)
        is_static = world.cluster.engine == "static"
        engine: Engine = (
            StaticEngine(price, world.workload)
            if is_static
            else ContinuousEngine(price, world.workload)
        )
        actor = Actor(self._num_joined, unit, kind, engine, idle_since_s=world.now_s)
        self._num_joined += 1
        self._actors[actor.number] = actor
        self._log("join", actor, version=world.version)
        world.do(world.control.joined(actor.number, world.version, kind.slots, instance))

    def _schedule(self, actor: Actor) -> None:
        """The heap holds the next end of an actor; what it held before is void."""
        actor.schedule += 1
        next_s = actor.engine.next_s()
        if next_s < math.inf:
            due = partial(self._advance, actor, actor.schedule)
            self._world.events.at(max(next_s, self._world.now_s), Priority.ACTOR, due)

    def _advance(self, actor: Actor, schedule: int) -> None:
        if schedule != actor.schedule:
            return
        world = self._world
        ended, is_free = actor.engine.advance(world.now_s)
        if not actor.engine.num_active:
            actor.idle_since_s = world.now_s
        self._schedule(actor)
        commands: list[Command] = []
        for work, cut, failed in ended:
            if world.is_restarting:
                self._waste({response.group for response in cut}, work.token_budget, actor)
            if failed:
                self._log("timeout", actor, work)
            for response in failed:
                world.give_up(response)
            self._log("end", actor, work)
            commands += world.control.ended(work.number, cut, failed)
        if is_free:
            commands += world.control.free(actor.number)
        world.do(commands)

    def _waste(self, groups: set[int], budget: int | None, actor: Actor) -> None:
        """Sample groups that start again have been decoded in vain."""
        price, spent = actor.engine.price, actor.engine.spent
        for group in groups:
            prompt = self._world.workload.prompt_tokens_g[group]
            for length in self._world.workload.lengths_g[group]:
                made = length if budget is None else min(length, budget)
                seconds = price.response_seconds(0, made, prompt) + price.prefill * prompt
                spent.useful -= seconds * price.num_devices
                spent.lost += seconds * price.num_devices

    def _reloaded(self, actor: Actor, version: int) -> None:
        if actor.number not in self._actors:
            return
        self._leave_reload(actor)
        actor.idle_since_s = self._world.now_s
        self._log("reloaded", actor, version=version)
        self._world.do(self._world.control.reloaded(actor.number, version))

    # What is written down ---------------------------------------------------------------------

    def _leave_idle(self, actor: Actor) -> None:
        if actor.idle_since_s is not None:
            idle = (self._world.now_s - actor.idle_since_s) * actor.kind.devices_per_actor
            self._world.ledger_u[actor.unit].sorting += idle
            actor.idle_since_s = None

    def _leave_reload(self, actor: Actor) -> None:
        if actor.reload_since_s is not None:
            reload = (self._world.now_s - actor.reload_since_s) * actor.kind.devices_per_actor
            self._world.ledger_u[actor.unit].reload += reload
            actor.reload_since_s = None

    def _log(
        self, event: str, actor: Actor, work: Work | None = None, version: int | None = None
    ) -> None:
        self._world.record.event(
            self._world.now_s, event, actor.unit, actor.number, work, actor.engine.num_active,
            version,
        )  # fmt: skip
