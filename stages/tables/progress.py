"""How far is the work? A bar on a terminal, else a line now and then.

Nothing is shown under --quiet. Words go to stderr.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from stages.tables.errors import log

LINE_EVERY_S = 30.0
Advance = Callable[[int], None]


@contextmanager
def progress(what: str, total: int | None, num_done: int = 0) -> Iterator[Advance]:
    """Yields what counts pieces of work as done.

    Args:
        what: Is being done, with the name of the pieces: `states of prompts`.
        total: Pieces in all; None: not known, so that the time left is not either.
        num_done: Already there at the start: they say nothing of the speed.
    """
    if not has_bar():
        yield _lines(what, total, num_done)
        return
    left = TimeElapsedColumn() if total is None else TimeRemainingColumn()
    columns = (
        TextColumn("asp: {task.description}"), BarColumn(), MofNCompleteColumn(),
        TaskProgressColumn(), left,
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=total, completed=num_done)
        yield lambda number: shown.advance(task, number)


def has_bar() -> bool:
    """Whether there is a terminal to draw on, and a wish to see it."""
    return log.isEnabledFor(logging.INFO) and sys.stderr.isatty()


def _lines(
    what: str, total: int | None, num_done: int, clock: Callable[[], float] = time.perf_counter
) -> Advance:
    start_s = last_s = clock()
    done = num_done

    def advance(number: int) -> None:
        nonlocal done, last_s
        done += number
        now_s = clock()
        if now_s - last_s < LINE_EVERY_S or done == total:
            return
        last_s = now_s
        if total is None:
            log.info("%s: %d", what, done)
        else:
            left_s = (now_s - start_s) / (done - num_done) * (total - done)
            log.info("%s: %d of %d, %s left", what, done, total, duration(left_s))

    return advance


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `1.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
