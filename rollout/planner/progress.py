"""How many runs are done? A bar on a terminal, else a line now and then."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from stages.tables.errors import log

LINE_EVERY_S = 30.0


@contextmanager
def told() -> Iterator[Callable[[int], None]]:
    """Yield what shows a number of runs, on stderr; how many there will be is not known."""
    if log.isEnabledFor(logging.INFO) and sys.stderr.isatty():
        columns = (
            TextColumn("asp: plan"), BarColumn(), TextColumn("{task.completed:.0f} runs"),
            TimeElapsedColumn(),
        )  # fmt: skip
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("", total=None)
            yield lambda num_runs: progress.update(task, completed=num_runs)
    else:
        yield _lines()


def _lines() -> Callable[[int], None]:
    last_s = time.perf_counter()

    def show(num_runs: int) -> None:
        nonlocal last_s
        now_s = time.perf_counter()
        if now_s - last_s >= LINE_EVERY_S:
            last_s = now_s
            log.info("%d runs", num_runs)

    return show
