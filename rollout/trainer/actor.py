"""What does a generating actor do with its engine?

A thread that takes orders between decode steps. Static, it generates one minibatch at a time and
asks for another when that has ended. Else a slot is refilled as soon as its response is through,
and it asks when it has a slot that nothing waits for.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rollout.trainer.engines.engine import Engine
from rollout.trainer.exchange import (
    Broken,
    Ended,
    EngineBroke,
    Free,
    Generate,
    Load,
    Loaded,
    News,
    Order,
    PutDown,
    Refused,
    State,
    Unloaded,
)
from rollout.trainer.samples import Draft
from rollout.trainer.stopwatch import Stopwatch
from stages.tables.errors import AspError


@dataclass
class Running:
    """Work that has not ended."""

    drafts: list[Draft]
    deadline_s: float
    through: list[Draft] = field(default_factory=list)


@dataclass(frozen=True)
class Begin:
    """Drop everything and load these weights."""

    number: int
    version: int
    snapshot: Path
    done: "queue.Queue[AspError | EngineBroke | None]"


class GeneratingActor:
    """An engine on a thread of its own."""

    def __init__(self, engine: Engine, static: bool, tell: Callable[[News], None]) -> None:
        self._engine = engine
        self._is_static = static
        self._tell = tell
        self._orders: queue.Queue[Order | Begin] = queue.Queue()
        self._number = -1
        self._works: dict[int, Running] = {}
        self._work_of: dict[tuple[int, int], int] = {}  # of what has no end
        self._backlog: deque[Draft] = deque()
        self._active: dict[tuple[int, int], Draft] = {}
        self._has_asked = True
        self._stopwatch = Stopwatch(engine.slots)
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def slots(self) -> int:
        """Of its engine."""
        return self._engine.slots

    def begin(self, number: int, version: int, snapshot: Path) -> None:
        """Drop everything, load weights, go by this number.

        Raises:
            AspError: The snapshot can't be read.
            EngineBroke: The engine failed, now or before.
        """
        done: queue.Queue[AspError | EngineBroke | None] = queue.Queue()
        self._orders.put(Begin(number, version, snapshot, done))
        error = done.get()
        if error is not None:
            raise error

    def order(self, order: Order) -> None:
        """To be looked at between decode steps."""
        self._orders.put(order)

    def state(self) -> State:
        """How it is doing."""
        return State(len(self._active), self._stopwatch.num_tokens, replace(self._stopwatch.spent))

    # The thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                if not self._works or not self._orders.empty():
                    self._obey(self._orders.get())
                else:
                    self._advance()
                self._ask()
        except BaseException as error:  # whatever an engine raises, the driver must hear of it
            broke = EngineBroke(f"{type(error).__name__}: {error}")
        self._tell(Broken(self._number, str(broke)))
        while True:  # who wants it to begin must not wait for ever
            order = self._orders.get()
            if isinstance(order, Begin):
                order.done.put(broke)

    def _obey(self, order: Order | Begin) -> None:
        if not self._works:
            self._stopwatch.waited()
        match order:
            case Generate():
                self._start(order)
            case PutDown():
                self._put_down()
            case Load(_, version, snapshot):
                reason = self._load(version, snapshot)
                done = Loaded(self._number, version) if reason is None else None
                self._tell(done or Refused(self._number, str(reason)))
            case Begin():
                try:
                    order.done.put(self._begin(order))
                except BaseException:
                    self._orders.put(order)  # it is answered with what broke
                    raise

    def _begin(self, order: Begin) -> AspError | None:
        self._engine.put_down()
        self._clear()
        self._stopwatch.begin()
        self._number = order.number
        return self._load(order.version, order.snapshot)

    def _load(self, version: int, snapshot: Path) -> AspError | None:
        self._stopwatch.lap()
        try:
            self._engine.load(version, snapshot)
        except AspError as error:
            return error
        finally:
            self._stopwatch.loaded()
        return None

    def _start(self, order: Generate) -> None:
        running = Running(order.drafts, time.monotonic() + order.seconds)
        self._works[order.work] = running
        self._has_asked = False
        for draft in order.drafts:
            self._work_of[draft.group, draft.sample] = order.work
            if draft.end is not None or len(draft.token_ids) >= draft.limit:
                self._through(draft)
            else:
                self._backlog.append(draft)

    def _put_down(self) -> None:
        self._engine.put_down()
        drafts = {number: running.drafts for number, running in self._works.items()}
        self._clear()
        self._tell(Unloaded(self._number, drafts))

    def _clear(self) -> None:
        self._works.clear()
        self._work_of.clear()
        self._backlog.clear()
        self._active.clear()
        self._has_asked = True

    def _ask(self) -> None:
        """Once for every minibatch that was given."""
        is_short = not self._backlog and len(self._active) < self.slots
        if not self._has_asked and (not self._works if self._is_static else is_short):
            self._has_asked = True
            self._tell(Free(self._number))

    def _advance(self) -> None:
        """Fill slots, decode for a while, let go of what is through."""
        self._give_up()
        self._fill()
        if not self._active:
            return
        num_empty = self._num_empty() if self._is_static else self.slots - len(self._active)
        before = {key: len(draft.token_ids) for key, draft in self._active.items()}
        through = self._engine.decode(self._stopwatch.steps_per_pulse)
        grown = [len(draft.token_ids) - before[key] for key, draft in self._active.items()]
        self._stopwatch.decoded(grown, num_empty)
        for draft in through:
            del self._active[draft.group, draft.sample]
            self._through(draft)

    def _num_empty(self) -> int:
        """Slots that no response of the minibatch has held."""
        (running,) = list(self._works.values())[:1]
        return max(0, self.slots - len(running.drafts))

    def _fill(self) -> None:
        """Static: nothing before the engine is empty, and then one minibatch."""
        if not self._backlog or (self._is_static and self._active):
            return
        first = self._work_of[self._backlog[0].group, self._backlog[0].sample]
        added: list[Draft] = []
        while self._backlog and len(self._active) < self.slots:
            draft = self._backlog[0]
            key = draft.group, draft.sample
            if self._is_static and self._work_of[key] != first:
                break
            added.append(self._backlog.popleft())
            self._active[key] = draft
        self._engine.add(added)
        self._stopwatch.prefilled(added)

    def _give_up(self) -> None:
        """End what has no end at the deadline of its work."""
        now_s = time.monotonic()
        late = {number for number, running in self._works.items() if now_s > running.deadline_s}
        if not late:
            return
        self._engine.put_down()
        left = [*self._active.values(), *self._backlog]
        self._active.clear()
        self._backlog.clear()
        for draft in left:
            if self._work_of[draft.group, draft.sample] in late:
                draft.end = "abort"
                self._through(draft)
            else:
                self._backlog.append(draft)

    def _through(self, draft: Draft) -> None:
        number = self._work_of.pop((draft.group, draft.sample))
        running = self._works[number]
        running.through.append(draft)
        if len(running.through) == len(running.drafts):
            del self._works[number]
            self._tell(Ended(self._number, number, running.drafts))
