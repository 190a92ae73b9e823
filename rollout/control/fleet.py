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
        self._seen: set[int] = set()
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
        assert actor.number not in self._seen, f"actor {actor.number} was here before"
        self._seen.add(actor.number)
        self.actors[actor.number] = actor
        self.published = max(self.published, actor.version)
        self._free[actor.number] = None

    def lose(self, number: int) -> Actor | None:
        """The actor, which is no longer there; None if it was not."""
        self._free.pop(number, None)
        return self.actors.pop(number, None)

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
            actor.version, actor.service = version, Service.SERVING
            self._free.setdefault(number)

    def unloaded(self, number: int, works: Collection[int]) -> list[int]:
        """An actor that was asked to has put down its work; which of these it had."""
        actor = self.actors.get(number)
        if actor is None or actor.service is not Service.UNLOADING:
            return []
        put_down = sorted(actor.works.intersection(works))
        actor.works.difference_update(put_down)
        actor.service = Service.DRAINING
        return put_down

    def refresh(self) -> list[Command]:
        """Take actors that are behind out of service, and reload those that have no work."""
        behind = [
            actor
            for actor in self.actors.values()
            if actor.version < self.published and actor.service is Service.SERVING
        ]
        # The idle lose nothing by it, so they go first, then those with the oldest weights.
        behind.sort(key=lambda actor: (bool(actor.works), actor.version, actor.number))
        commands = self._reload_drained()
        for actor in behind:
            if self._settings.refresh == "unload":
                if self._num(Service.UNLOADING, Service.RELOADING) >= self.limit:
                    break
                if actor.works:
                    actor.service = Service.UNLOADING
                    commands.append(Unload(actor.number))
                    continue
            elif self._settings.refresh == "rolling" and self._num_out() >= self.limit:
                break
            actor.service = Service.DRAINING
            commands += self._reload_drained()
        return commands

    def _reload_drained(self) -> list[Command]:
        commands: list[Command] = []
        for actor in self.actors.values():
            if actor.service is not Service.DRAINING or actor.works:
                continue
            if self._num(Service.UNLOADING, Service.RELOADING) >= self.limit:
                break
            actor.service = Service.RELOADING
            self._free.pop(actor.number, None)
            commands.append(Reload(actor.number, self.published))
        return commands

    def _num(self, *services: Service) -> int:
        return sum(actor.service in services for actor in self.actors.values())

    def _num_out(self) -> int:
        return sum(actor.service is not Service.SERVING for actor in self.actors.values())
