"""What does a Generation Unit do?

It is a process with one or more generating actors, an engine and a thread each (`actor.py`). It
takes orders without delay and keeps its news until it is asked for, so the driver never waits for
a decode step. The class is plain; the driver makes it a Ray actor.
"""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from rollout.trainer.actor import GeneratingActor
from rollout.trainer.engines.engine import Engine
from rollout.trainer.exchange import News, Order, State


class GenerationUnit:
    """The actors of one process."""

    def __init__(self, open_engine: Callable[[int], Engine], num_actors: int, static: bool) -> None:
        """Open the engines, without weights.

        Args:
            open_engine: From the actor's place in the unit.
            num_actors: Engines to open.
            static: Whether an actor generates one minibatch at a time.
        """
        self._news: list[News] = []
        self._num_starts = 0
        self._has_news = threading.Condition()
        self._actors = [
            GeneratingActor(open_engine(place), static, self._tell) for place in range(num_actors)
        ]
        self._place: dict[int, GeneratingActor] = {}

    def process(self) -> int:
        """Its process id."""
        return os.getpid()

    def start(self, numbers: Sequence[int], version: int, snapshot: Path) -> list[int]:
        """Begin, or begin anew: drop all work, load weights, go by these numbers.

        Returns:
            Slots of each actor.

        Raises:
            AspError: The snapshot can't be read.
            EngineBroke: An engine failed.
        """
        self._place = dict(zip(numbers, self._actors, strict=True))
        for number, actor in self._place.items():
            actor.begin(number, version, snapshot)
        with self._has_news:
            self._news.clear()
            self._num_starts += 1
            self._has_news.notify_all()
        return [actor.slots for actor in self._actors]

    def obey(self, order: Order) -> None:
        """Pass an order on; orders to numbers of before are passed over."""
        actor = self._place.get(order.actor)
        if actor is not None:
            actor.order(order)

    def news(self, patience_s: float) -> tuple[list[News], dict[int, State]]:
        """What has happened, at the latest after so many seconds, and how the actors are doing."""
        with self._has_news:
            start = self._num_starts  # who asked before the next one must not take its news
            self._has_news.wait_for(
                lambda: self._news or self._num_starts != start, timeout=patience_s
            )
            if self._num_starts != start:
                return [], {}
            news, self._news = self._news, []
        return news, {number: actor.state() for number, actor in self._place.items()}

    def _tell(self, news: News) -> None:
        with self._has_news:
            self._news.append(news)
            self._has_news.notify()
