"""How does this process join a Ray cluster, and what if none answers?

Ray by itself tries for minutes, or for ever, and speaks of how it works meanwhile. The extra that
installs it is the caller's to name.
"""

import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from stages.tables.errors import AspError

LOCAL = "local"  # the address by which Ray starts on this machine
PATIENCE_S = 10.0  # until somebody listens at an address
START_S = 180.0  # until Ray is connected


@contextmanager
def on_ray(address: str | None, otherwise: str) -> Iterator[None]:
    """Join a Ray cluster, or have one on this machine for as long as the block lasts.

    Where this process is connected already, it stays so.

    Args:
        address: As --ray gives it; None or `local`: start one here.
        otherwise: What to give --ray in its place, for the message.

    Raises:
        AspError: No cluster answers at the address, or none can be started.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    is_local = address in (None, LOCAL)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        _knock(address or LOCAL)
        with within(START_S):
            ray.init(
                address or LOCAL, include_dashboard=False if is_local else None,
                log_to_driver=False, logging_level=logging.ERROR,
            )  # fmt: skip
    except Exception as error:  # Ray raises a bare one where it takes too long
        reason = str(error)[:200]
        if is_local:
            raise AspError(f"Ray cannot be started on this machine: {reason}") from None
        raise AspError(
            f"--ray {address}: no Ray cluster is reached there ({reason}); start one with `ray "
            f"start --head`, or {otherwise}"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError where the block takes longer, and give back the signals it has taken.

    In the main thread: Ray's processes end with the thread that started them. What is not Python
    is not broken off, but Ray's own attempts end after some 40 s each.
    """

    def break_off(signum: int, frame: object) -> None:
        raise TimeoutError(f"no answer in {seconds:g} s")

    handlers = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM)}
    signal.signal(signal.SIGALRM, break_off)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, where it is taken for a failure
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _knock(address: str) -> None:
    """Raise OSError where nobody listens at HOST:PORT; Ray itself would try for minutes."""
    place = address.removeprefix("ray://")
    host, _, port = place.rpartition(":")
    if not host or "://" in place:
        return
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ValueError(f"{port!r} is no port, a number from 1 to {2**16 - 1}")
    socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()
