"""What a user did wrong, in one line, and how the toolchain speaks to its user.

Words go to stderr through the `asp` logger, never to stdout, which belongs to data.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

log = logging.getLogger("asp")

PATIENCE_S = 2.0


class AspError(Exception):
    """A user's mistake, told in one line: what, where, the value met, the way out.

    `main()` prints it to stderr and exits with 1. Everything else that propagates is a defect.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Put the name of a file before what is found wrong with it."""
    try:
        yield
    except AspError as error:
        raise AspError(f"{name}: {error}") from None


class Stopped(AspError):
    """The user stopped a run that leaves something to go on from; exit 130."""


def first_few(values: object, limit: int = 3) -> str:
    """Render the first values of an iterable for a message: `3, 7, 9, ...`."""
    items = list(values)  # type: ignore[call-overload]
    return ", ".join(map(shorten, items[:limit])) + (", ..." if len(items) > limit else "")


def shorten(value: object, limit: int = 200) -> str:
    """Render a value for a message, cut where it is long: a cell may hold a whole book."""
    text = str(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def difference(held: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Where the settings of a run that is there differ: `seed 0 there, 1 now; ...`."""
    names = sorted(n for n in held.keys() | wanted.keys() if held.get(n) != wanted.get(n))
    return "; ".join(
        f"{name} {held.get(name, 'none')[:24]} there, {wanted.get(name, 'none')[:24]} now"
        for name in names
    )


@contextmanager
def told_when_slow(message: str, *values: object) -> Iterator[None]:
    """Say what is being done if the block takes longer than two seconds."""
    timer = threading.Timer(PATIENCE_S, log.info, (message, *values))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Once:
    """Gives each warning once, whatever the values in it: the first ones stand for all."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def warn(self, message: str, *values: object) -> None:
        """Give a warning, unless it was given before."""
        if self.is_new(message):
            log.warning(message, *values)

    def is_new(self, message: str) -> bool:
        """Whether it is asked for the first time."""
        is_new = message not in self._given
        self._given.add(message)
        return is_new


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Whoever gives a warning in the block gives it once: for work that is done in batches."""
    once = Once()

    def passes(record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING or once.is_new(str(record.msg))

    log.addFilter(passes)
    try:
        yield
    finally:
        log.removeFilter(passes)
