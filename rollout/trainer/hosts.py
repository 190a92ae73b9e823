"""Where do the Generation Units run, and what if one is lost?

A Ray actor each. A unit that dies, breaks or hangs is killed and another started in its place; its
actors get new numbers, since numbers are never used twice.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import ray

from rollout.trainer.exchange import (
    Broken,
    Ended,
    EngineBroke,
    Load,
    Loaded,
    News,
    Order,
    Refused,
    State,
)
from rollout.trainer.waiting import WAY_OUT, Waiting, first_line, why_lost
from stages.tables.errors import AspError, log

PATIENCE_S = 5.0  # that a unit waits for news before it says that there is none
RETRY_S = 0.5
MOST_LOSSES = 10  # of a unit in a session, without work that ended between them: the run ends
SILENT = "it does not answer, long after it was told to load weights"


class Hears(Protocol):
    """Whom the units' news is for."""

    def joined(self, unit: int, actors: Sequence[int], slots: Sequence[int]) -> None:
        """A unit is there."""

    def heard(self, news: News) -> None:
        """News of an actor."""

    def lost(self, unit: int, actors: Sequence[int]) -> None:
        """A unit is gone."""

    def cannot_start(self, unit: int, reason: str) -> None:
        """A unit could not read the snapshot; `start` it again with another."""


@dataclass
class Host:
    """One unit."""

    number: int
    actor: Any = None  # of Ray
    numbers: list[int] = field(default_factory=list)  # of its generating actors
    states: dict[int, State] = field(default_factory=dict)
    version: int = 0  # that it began with
    heard_s: float = 0.0  # time.monotonic() of its last news
    pid: int | None = None
    num_losses: int = 0  # since work of it ended, or the start of the session


class Hosts:
    """All units."""

    def __init__(
        self,
        waiting: Waiting,
        open_unit: Callable[[int], Any],
        actors_u: Sequence[int],
        load_timeout_s: float,
    ) -> None:
        """Begin the processes.

        Args:
            waiting: Of the driver.
            open_unit: Makes a Ray actor of class GenerationUnit, by its number.
            actors_u: Generating actors of each unit.
            load_timeout_s: Of loading weights, once the process is up.
        """
        self._waiting = waiting
        self._open_unit = open_unit
        self._actors_u = actors_u
        self._load_timeout_s = load_timeout_s
        self.hears: Hears
        self._numbers = itertools.count()
        self._host_of: dict[int, Host] = {}  # by actor
        self._loading: dict[int, Load] = {}  # by actor, what was not answered
        self.hosts = [Host(number, open_unit(number)) for number in range(len(actors_u))]

    def start(self, unit: int, version: int, snapshot: Path) -> None:
        """Begin, or begin anew with no work, on these weights."""
        host = self.hosts[unit]
        for number in host.numbers:
            self._host_of.pop(number, None)
        if host.actor is None:
            host.actor = self._open_unit(unit)
        host.numbers = [next(self._numbers) for _ in range(self._actors_u[unit])]
        host.version, host.heard_s = version, time.monotonic()
        actor, numbers = host.actor, host.numbers
        self._waiting.call(
            actor.process.remote(),
            lambda pid: self._is_up(host, numbers, pid),
            lambda error: None,  # `start` will tell
        )
        self._waiting.call(
            actor.start.remote(numbers, version, snapshot),
            lambda slots: self._started(host, numbers, slots),
            lambda error: self._not_started(host, actor, error),
        )

    def begin_session(self) -> None:
        """What units were at is dropped, so that it had no end is no fault of theirs."""
        for host in self.hosts:
            host.num_losses = 0

    def tell(self, order: Order) -> None:
        """Pass an order on to its actor's unit; what is lost is passed over."""
        host = self._host_of.get(order.actor)
        if host is not None:
            host.actor.obey.remote(order)
            if isinstance(order, Load):
                self._loading[order.actor] = order
                self._waiting.after(self._load_timeout_s, lambda: self._not_loaded(host, order))

    def state(self, actor: int) -> State:
        """How an actor was doing at its last news."""
        host = self._host_of.get(actor)
        return host.states.get(actor, State()) if host else State()

    def unit(self, actor: int) -> int | None:
        """Its unit; None: it is no longer there."""
        host = self._host_of.get(actor)
        return host.number if host else None

    def kill(self, unit: int, reason: str) -> None:
        """It hangs, or is broken."""
        host = self.hosts[unit]
        if host.actor is not None:
            ray.kill(host.actor)
            self._lost(host, host.actor, reason)

    def close(self) -> None:
        """End every process."""
        for host in self.hosts:
            if host.actor is not None:
                ray.kill(host.actor)

    def _is_up(self, host: Host, numbers: list[int], pid: int) -> None:
        host.pid = pid
        self._waiting.after(self._load_timeout_s, lambda: self._not_begun(host, numbers))

    def _not_begun(self, host: Host, numbers: list[int]) -> None:
        if host.numbers is numbers and self._host_of.keys().isdisjoint(numbers):
            self.kill(host.number, SILENT)

    def _not_loaded(self, host: Host, load: Load) -> None:
        if self._loading.get(load.actor) is load and load.actor in host.numbers:
            self.kill(host.number, SILENT)

    def _started(self, host: Host, numbers: list[int], slots: Sequence[int]) -> None:
        if host.numbers is numbers:
            self._host_of.update(dict.fromkeys(numbers, host))
            host.states = {number: State() for number in numbers}
            self._listen(host, numbers)
            self.hears.joined(host.number, numbers, slots)

    def _not_started(self, host: Host, actor: Any, error: Exception) -> None:
        if host.actor is not actor:
            return
        if isinstance(error, AspError):
            self.hears.cannot_start(host.number, str(error))
        elif isinstance(error, (EngineBroke, ray.exceptions.RayError)):
            self.kill(host.number, why_lost(error))
        else:
            raise error

    def _listen(self, host: Host, numbers: list[int]) -> None:
        actor = host.actor
        self._waiting.call(
            actor.news.options(concurrency_group="news").remote(PATIENCE_S),
            lambda answer: self._heard(host, numbers, *answer),
            lambda error: self._lost(host, actor, why_lost(error)),
        )

    def _heard(
        self, host: Host, numbers: list[int], news: Sequence[News], states: dict[int, State]
    ) -> None:
        if host.numbers is not numbers:
            return
        host.states, host.heard_s = states, time.monotonic()
        if any(map(_shows_work, news)):
            host.num_losses = 0
        self._listen(host, numbers)
        for each in news:
            if isinstance(each, Broken):
                self.kill(host.number, each.reason)
                return
            if isinstance(each, (Loaded, Refused)):
                self._loading.pop(each.actor, None)
            if host.numbers is numbers:
                self.hears.heard(each)

    def _lost(self, host: Host, actor: Any, reason: str) -> None:
        if host.actor is not actor:
            return
        host.actor, gone, host.numbers = None, host.numbers, []
        host.num_losses += 1
        reason = first_line(reason)
        if host.num_losses >= MOST_LOSSES:
            raise AspError(
                f"generation unit {host.number} was lost {host.num_losses} times without having "
                f"done anything; the last time: {reason}; {WAY_OUT}"
            )
        log.warning("generation unit %d is lost and begins anew: %s", host.number, reason)
        for number in gone:
            self._host_of.pop(number, None)
        self.hears.lost(host.number, gone)


def _shows_work(news: News) -> bool:
    """Whether an engine decoded to the end: what is given up may never have been begun."""
    return isinstance(news, Ended) and all(draft.end != "abort" for draft in news.drafts)
