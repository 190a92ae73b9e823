"""What does TensorBoard show of a run?

Event files in RUN_DIR/tensorboard, where the package `tensorboard` is installed: a row of scalars a
training step, read from the journal. Where a run goes back to a checkpoint, TensorBoard is told to
drop the steps that are void.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollout.simulator.recorder import STEPS

if TYPE_CHECKING:
    from rollout.trainer.driver import Driver
    from rollout.trainer.session import Session


@contextmanager
def board(folder: Path) -> Iterator[Callable[["Driver"], None]]:
    """What to call with the driver now and then."""
    shown = Board(folder)
    try:
        yield shown.show
    finally:
        shown.close()


class Board:
    """Writes each step once, as long as it stands."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(folder))
        self._driver: Driver | None = None
        self._session: Session | None = None
        self._next_step = 0

    def show(self, driver: "Driver") -> None:
        """The steps made since the last time."""
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        session = driver.session
        if session is None:
            return
        self._driver = driver
        if session is not self._session:
            self._session, self._next_step = session, session.first_step
            self._add(session_log=SessionLog(status=SessionLog.START))
        for row, metrics in driver.journal.steps(self._next_step):
            scalars = dict(zip(STEPS, row or (), strict=False)) | metrics
            values = [Summary.Value(tag=tag, simple_value=x) for tag, x in scalars.items()]
            self._add(summary=Summary(value=values))
            self._next_step += 1
        self._writer.flush()

    def close(self) -> None:
        """With the last steps."""
        if self._driver is not None:
            self.show(self._driver)
        self._writer.close()

    def _add(self, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=self._next_step, **content))
