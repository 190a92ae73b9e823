"""Which actors are there, who is free, and who reloads next?

An actor that is *behind* has older weights than were published last. What it does then:

    unload   puts down its work at once, reloads, is free
    finish   takes no new work (it drains), reloads when it has none, is free
    rolling  as finish, but no more than `max_reloading` actors are out of service at a time

At no time do more than `limit` actors unload or reload.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from rollout.control.messages import Command, Reload, Unload
from rollout.control.settings import ControlSettings


class Service(Enum):
    """What an actor is doing about its weights."""

    SERVING = "serving"
    DRAINING = "draining"  # finishes what it has
    UNLOADING = "unloading"  # was told to put down its work
    RELOADING = "reloading"


@dataclass
class Actor:
    """One engine, as far as the Control Unit knows."""

    number: int
    version: int  # loaded
    slots: int
    instance: int | None
    service: Service = Service.SERVING
    works: set[int] = field(default_factory=set)  # numbers of the work that it has


class Fleet:
    """The actors that are present."""

    def __init__(self, settings: ControlSettings) -> None:
        self._settings = settings
        self._free: dict[int, None] = {}  # who can take work, longest waiting first
        self._place: dict[int, int] = {}  # of every actor that was ever here, in order of joining
        # Kept beside the actors, since after every event it is asked who is to reload.
        self._doing: dict[Service, set[int]] = {service: set() for service in Service}
        self._behind: set[int] = set()  # who serves with weights older than the published
        self.actors: dict[int, Actor] = {}
        self.published = 0

    @property
    def limit(self) -> int:
        """Actors that may unload or reload together: never all, unless there is one."""
        most = self._settings.max_reloading
        if most is None:
            most = 1 if self._settings.refresh == "rolling" else len(self.actors)
        return max(1, min(most, len(self.actors) - 1))

    def join(self, actor: Actor) -> None:
        """A new actor, free. Numbers are never used twice, so that late news can be told apart."""
        assert actor.number not in self._place, f"actor {actor.number} was here before"
        self._place[actor.number] = len(self._place)
        self.actors[actor.number] = actor
        self._turn(actor, actor.service)
        self._free[actor.number] = None
        self.publish(actor.version)

    def lose(self, number: int) -> Actor | None:
        """The actor, which is no longer there; None if it was not."""
        self._free.pop(number, None)
        actor = self.actors.pop(number, None)
        if actor is not None:
            self._doing[actor.service].discard(number)
            self._behind.discard(number)
        return actor

    def publish(self, version: int) -> None:
        """There are weights of this version."""
        if version > self.published:
            self.published = version
            serving = self._doing[Service.SERVING]
            self._behind = {n for n in serving if self.actors[n].version < version}

    def is_placed(self, instance: int | None) -> bool:
        """Whether an actor is there that stands for the instance."""
        return any(actor.instance == instance for actor in self.actors.values())

    def ask(self, number: int) -> None:
        """An actor can take work."""
        if number in self.actors:
            self._free.setdefault(number)

    def give(self, number: int, work: int) -> None:
        """An actor has work."""
        del self._free[number]
        self.actors[number].works.add(work)

    def free_actors(self) -> list[Actor]:
        """Who can take work now, longest waiting first."""
        actors = (self.actors[number] for number in self._free)
        return [actor for actor in actors if actor.service is Service.SERVING]

    def reloaded(self, number: int, version: int) -> None:
        """An actor has loaded weights and is free."""
        actor = self.actors.get(number)
        if actor is not None and actor.service is Service.RELOADING:
            actor.version = version
            self._turn(actor, Service.SERVING)
            self._free.setdefault(number)

    def unloaded(self, number: int, works: Collection[int]) -> list[int]:
        """An actor that was asked to has put down its work; which of these it had."""
        actor = self.actors.get(number)
        if actor is None or actor.service is not Service.UNLOADING:
            return []
        put_down = sorted(actor.works.intersection(works))
        actor.works.difference_update(put_down)
        self._turn(actor, Service.DRAINING)
        return put_down

    def refresh(self) -> list[Command]:
        """Take actors that are behind out of service, and reload those that have no work."""
        # The idle lose nothing by it, so they go first, then those with the oldest weights.
        behind = sorted(
            (self.actors[number] for number in self._behind),
            key=lambda actor: (bool(actor.works), actor.version, actor.number),
        )
        commands = self._reload_drained()
        for actor in behind:
            if self._settings.refresh == "unload":
                if self._num(Service.UNLOADING, Service.RELOADING) >= self.limit:
                    break
                if actor.works:
                    self._turn(actor, Service.UNLOADING)
                    commands.append(Unload(actor.number))
                    continue
            elif self._settings.refresh == "rolling" and self._num_out() >= self.limit:
                break
            self._turn(actor, Service.DRAINING)
            commands += self._reload_drained()
        return commands

    def _reload_drained(self) -> list[Command]:
        commands: list[Command] = []
        for number in sorted(self._doing[Service.DRAINING], key=self._place.__getitem__):
            actor = self.actors[number]
            if actor.works:
                continue
            if self._num(Service.UNLOADING, Service.RELOADING) >= self.limit:
                break
            self._turn(actor, Service.RELOADING)
            self._free.pop(number, None)
            commands.append(Reload(number, self.published))
        return commands

    def _turn(self, actor: Actor, service: Service) -> None:
        """An actor does something else about its weights from now on."""
        self._doing[actor.service].discard(actor.number)
        self._behind.discard(actor.number)
        actor.service = service
        self._doing[service].add(actor.number)
        if service is Service.SERVING and actor.version < self.published:
            self._behind.add(actor.number)

    def _num(self, *services: Service) -> int:
        return sum(len(self._doing[service]) for service in services)

    def _num_out(self) -> int:
        return len(self.actors) - self._num(Service.SERVING)
