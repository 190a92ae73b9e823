"""What does one see of a run while it goes on?

A few lines, redrawn several times a second where standard error is a terminal, and TensorBoard's
files (`board.py`) where that is installed. Neither changes anything of the run.
"""

import importlib.util
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rollout.trainer.board import board
from rollout.trainer.exchange import State
from rollout.trainer.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from rollout.trainer.driver import Driver

BARS = " ▁▂▃▄▅▆▇█"
Show = Callable[["Driver"], None]


@contextmanager
def view(is_shown: bool, place: Path) -> Iterator[Show]:
    """What to call with the driver several times a second."""
    with ExitStack() as stack:
        shows: list[Show] = []
        if is_shown and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console

            shows.append(stack.enter_context(screen(Console(stderr=True))))
        if importlib.util.find_spec("tensorboard"):
            shows.append(stack.enter_context(board(place / "tensorboard")))

        def show(driver: "Driver") -> None:
            for each in shows:
                each(driver)

        yield show


@contextmanager
def screen(console: "Console") -> Iterator[Show]:
    """Lines at the foot of a terminal, which go when the run is over."""
    from rich.live import Live
    from rich.text import Text

    watch = Watch()
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def show(driver: "Driver") -> None:
            if driver.session is not None:
                live.update(Text("\n".join(watch.lines(driver, driver.session))), refresh=True)

        yield show


class Watch:
    """What is said of a run."""

    def __init__(self) -> None:
        self._begin_s = time.monotonic()
        self._first_step: int | None = None
        self._tokens_a: dict[int, int] = {}  # by actor; those that are gone made theirs, too

    def lines(self, driver: "Driver", session: Session) -> list[str]:
        """Steps and time left, queue, lags, units, speed and reward."""
        inventory, record = session.control.inventory, driver.accounts.record
        num_steps = driver.plan.num_steps
        actors = session.control.fleet.actors.values()
        services = Counter(actor.service.value for actor in actors)
        units = ", ".join(f"{number} {service}" for service, number in sorted(services.items()))
        num_active = sum(
            state.num_active for host in driver.hosts.hosts for state in host.states.values()
        )
        elapsed_s = time.monotonic() - self._begin_s
        num_tokens = self.tokens(host.states for host in driver.hosts.hosts)
        reward = session.metrics.get("reward_mean")
        return [
            f"step {session.num_trained} of {num_steps}   {self._left(session, num_steps)}",
            f"queue {inventory.queued} of {inventory.capacity} samples, {inventory.in_flight} in "
            f"flight, {inventory.waiting} carried",
            f"lag {histogram(list(record.lag_g.values()))}",
            f"actors {units or 'none yet'}; {num_active} responses being decoded",
            f"{num_tokens / max(elapsed_s, 1e-9):,.0f} tokens/s"
            + ("" if reward is None else f", reward {reward:.3f}"),
        ]

    def tokens(self, states_u: Iterable[Mapping[int, State]]) -> int:
        """Made while it was watched, by the states of all units' actors."""
        for states in states_u:
            self._tokens_a |= {actor: state.num_tokens for actor, state in states.items()}
        return sum(self._tokens_a.values())

    def _left(self, session: Session, num_steps: int) -> str:
        if self._first_step is None:
            self._first_step = session.num_trained
        num_made = session.num_trained - self._first_step
        if num_made <= 0:
            return ""
        left_s = (time.monotonic() - self._begin_s) * (num_steps - session.num_trained) / num_made
        return f"{left_s / 60:,.0f} min left" if left_s > 120 else f"{left_s:,.0f} s left"


def histogram(lags: list[int]) -> str:
    """`0 ▂█▁ 2`: a bar a lag, between the least and the largest."""
    if not lags:
        return "none yet"
    counts = Counter(lags)
    least, largest = min(counts), max(counts)
    most = max(counts.values())
    bars = [BARS[-(-(len(BARS) - 1) * counts[lag] // most)] for lag in range(least, largest + 1)]
    return f"{least} {''.join(bars)} {largest}"
