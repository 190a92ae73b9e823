"""What does the driver wait for?

Calls to other processes and moments in time, each with what is to happen then. Nothing here
blocks but `next`, and that no longer than it is told.
"""

import heapq
import itertools
import time
from collections.abc import Callable
from typing import Any

import ray

from stages.tables.errors import AspError, shorten

Happen = Callable[[], None]
OnResult = Callable[[Any], None]
OnError = Callable[[Exception], None]

WAY_OUT = "see to that; the same command goes on from the last checkpoint in RUN_DIR"


class Waiting:
    """Calls under way, and a heap of moments."""

    def __init__(self) -> None:
        self._calls: dict[ray.ObjectRef[Any], tuple[OnResult, OnError]] = {}
        self._moments: list[tuple[float, int, Happen]] = []
        self._count = itertools.count()

    def call(self, ref: "ray.ObjectRef[Any]", on_result: OnResult, on_error: OnError) -> None:
        """Let one of the two happen when the call has returned."""
        self._calls[ref] = on_result, on_error

    def after(self, seconds: float, happen: Happen) -> None:
        """Let it happen then; at the next `next` where there is nothing to wait for."""
        heapq.heappush(self._moments, (time.monotonic() + seconds, next(self._count), happen))

    def forget(self) -> None:
        """Nothing of what was waited for matters any more."""
        self._calls.clear()
        self._moments.clear()

    def next(self, patience_s: float) -> None:
        """Let happen what is due, waiting for the first of it."""
        if self._moments:
            patience_s = min(patience_s, max(0.0, self._moments[0][0] - time.monotonic()))
        if self._calls:
            ray.wait(list(self._calls), num_returns=1, timeout=patience_s, fetch_local=False)
            ready, _ = ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)
            for ref in ready:
                # What happened before may have forgotten it.
                happen = self._calls.pop(ref, None)
                if happen is not None:
                    _settle(ref, *happen)
        else:
            time.sleep(patience_s)
        while self._moments and self._moments[0][0] <= time.monotonic():
            heapq.heappop(self._moments)[2]()


def first_line(reason: str) -> str:
    """What Ray says of a lost process, in short."""
    lines = [line for line in reason.splitlines() if line.strip()]
    return shorten(lines[0]) if lines else "no reason given"


def why_lost(error: Exception) -> str:
    """What Ray says of a lost process, in short; of one that could not start, what was raised.

    Raises:
        AspError: That is what was raised: another process would meet the same mistake.
    """
    if not getattr(error, "actor_init_failed", False):
        return first_line(str(error))
    lines = [line for line in str(error).splitlines() if line.strip()]  # ends as a traceback does
    last_frame = max((n for n, line in enumerate(lines) if line.startswith("  File ")), default=0)
    raised = next((line for line in lines[last_frame + 1 :] if line[0] != " "), lines[-1])
    name, _, message = raised.partition(": ")
    if name == f"{AspError.__module__}.{AspError.__qualname__}":
        raise AspError(message)
    return shorten(raised)


def _settle(ref: "ray.ObjectRef[Any]", on_result: OnResult, on_error: OnError) -> None:
    try:
        result = ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        on_error(error.cause if isinstance(error.cause, Exception) else error)
    except ray.exceptions.RayError as error:
        on_error(error)
    else:
        on_result(result)
