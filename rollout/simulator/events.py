"""What happens next in virtual time?"""

import heapq
from collections.abc import Callable
from enum import IntEnum


class Priority(IntEnum):
    """Order of events at one time: what makes room comes before what takes it."""

    ACTOR = 0
    REWARD = 1
    TRAINING = 2
    WEIGHTS = 3
    DISTURBANCE = 4


class Events:
    """A heap ordered by (time, priority, sequence)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, Callable[[], None]]] = []
        self._sequence = 0
        self.now_s = 0.0

    def at(self, time_s: float, priority: Priority, happen: Callable[[], None]) -> None:
        """Let it happen then."""
        assert time_s >= self.now_s, f"an event at {time_s} s, and it is {self.now_s} s"
        heapq.heappush(self._heap, (time_s, priority, self._sequence, happen))
        self._sequence += 1

    def next(self) -> bool:
        """Let the next event happen; whether there was one."""
        if not self._heap:
            return False
        self.now_s, _, _, happen = heapq.heappop(self._heap)
        happen()
        return True
