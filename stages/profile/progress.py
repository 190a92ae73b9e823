"""How fast does a model answer? Tokens a second and the time left, shown as `progress` does.

Nothing is shown under --quiet. Words go to stderr.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from stages.tables.errors import log
from stages.tables.progress import LINE_EVERY_S, duration, has_bar


@dataclass
class Meter:
    """Counts responses and tokens, and shows them.

    Args:
        num_responses: Wanted in all.
        num_done: Already there at the start (a resumed run): they say nothing of the speed.
        show: Shows a state of the meter.
        clock: Seconds.
    """

    num_responses: int
    num_done: int
    show: Callable[["Meter"], None]
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        self._num_resumed = self.num_done
        self._num_tokens = 0
        self._start_s = self.clock()

    def add_tokens(self, num_tokens: int) -> None:
        """Count response tokens made."""
        self._num_tokens += num_tokens
        self.show(self)

    def add_responses(self, num_responses: int) -> None:
        """Count responses finished."""
        self.num_done += num_responses
        self.show(self)

    @property
    def tokens_per_s(self) -> float:
        """Tokens made a second, since the start."""
        elapsed_s = self.clock() - self._start_s
        return self._num_tokens / elapsed_s if elapsed_s > 0 else 0.0

    def in_words(self) -> str:
        """`2,680 tokens/s, 3 min left`; the time once a first batch tells how long one takes."""
        elapsed_s = self.clock() - self._start_s
        words = f"{self.tokens_per_s:,.0f} tokens/s"
        num_made = self.num_done - self._num_resumed
        if num_made:
            left_s = elapsed_s / num_made * (self.num_responses - self.num_done)
            words += f", {duration(left_s)} left"
        return words


@contextmanager
def metered(num_responses: int, num_done: int) -> Iterator[Meter]:
    """A meter shown on stderr while the block runs."""
    if has_bar():
        with bar(Console(stderr=True), num_responses, num_done) as show:
            yield Meter(num_responses, num_done, show)
    else:
        yield Meter(num_responses, num_done, _lines())


@contextmanager
def bar(console: Console, num_responses: int, num_done: int) -> Iterator[Callable[[Meter], None]]:
    """A bar on a terminal, gone when the block ends; yields what draws a meter's state."""
    columns = (
        TextColumn("asp: profile"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=num_responses, completed=num_done, words="")

        def show(meter: Meter) -> None:
            progress.update(task, completed=meter.num_done, words=meter.in_words())

        yield show


def _lines() -> Callable[[Meter], None]:
    last_s = time.perf_counter()

    def show(meter: Meter) -> None:
        nonlocal last_s
        if meter.clock() - last_s >= LINE_EVERY_S:
            last_s = meter.clock()
            log.info(
                "%d of %d responses, %s", meter.num_done, meter.num_responses, meter.in_words()
            )

    return show
