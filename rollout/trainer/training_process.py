"""What does the process do that holds the Training Unit?

It does what it is told, one thing after the other, and says how many seconds that took. The class
is plain; the driver makes it a Ray actor.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rollout.trainer.samples import SampleGroup
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.units import Trainer

NUM_KEPT = 3  # snapshots: an engine may be loading an older one


class TrainingProcess:
    """A Training Unit in a process of its own."""

    def __init__(self, open_trainer: Callable[[], Trainer]) -> None:
        self._trainer = open_trainer()

    def process(self) -> int:
        """Its process id."""
        return os.getpid()

    def stay(self) -> None:
        """Does not return, so who waits for it hears at once when the process is lost."""
        threading.Event().wait()

    def train(self, groups: Sequence[SampleGroup]) -> tuple[dict[str, Any], float]:
        """One step; what it measured."""
        start_s = time.monotonic()
        metrics = asdict(self._trainer.train(groups))
        return metrics, time.monotonic() - start_s

    def publish(self, snapshots: Snapshots) -> tuple[int, float]:
        """Prune old snapshots, write a new one; the version that it has.

        Raises:
            AspError: There is no room, even without the old ones.
        """
        start_s = time.monotonic()
        snapshots.prune(NUM_KEPT)
        self._trainer.publish(snapshots)
        return self._trainer.version, time.monotonic() - start_s

    def save(self, path: Path) -> float:
        """Write a checkpoint.

        Raises:
            AspError: There is no room.
        """
        start_s = time.monotonic()
        self._trainer.save(path)
        return time.monotonic() - start_s

    def load(self, path: Path) -> None:
        """Go on from a checkpoint.

        Raises:
            AspError: It is damaged.
        """
        self._trainer.load(path)
