"""How does the driver have the Training Unit train, publish and save?

Its process does one thing after the other, in the order in which it was told. Where there is no
room for a snapshot, training goes on as far as the lag bound lets it while publishing is tried
again. Where there is none for a checkpoint, the last one stands.

A process that breaks over something will break over it again, so the run gives up after
`MOST_LOSSES` in a row. A row ends with a step that was never made before: those since the
checkpoint are made again after each loss. A process that is lost while it waits was taken from
outside; that is not counted.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import ray

from rollout.trainer.resume import Checkpoint
from rollout.trainer.samples import SampleGroup
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.waiting import WAY_OUT, Waiting, why_lost
from stages.tables.errors import AspError, log

RETRY_S = 1.0
MOST_FAILURES = 60  # of publishing, one after the other
MOST_LOSSES = 10  # of a process that was doing something, without a new step between: the run ends
Task = Literal["start", "load a checkpoint", "train", "write a snapshot", "write a checkpoint"]


class TrainingLost(Exception):
    """The process is gone, with all that it learnt since its last checkpoint."""


class Training:
    """The Training Unit's process, as the driver sees it."""

    def __init__(
        self,
        waiting: Waiting,
        open_process: Callable[[], Any],
        on_written: Callable[[float], None],
    ) -> None:
        """Begin the process.

        Args:
            waiting: Of the driver.
            open_process: Makes a Ray actor of class TrainingProcess.
            on_written: Is told the seconds that a snapshot or a checkpoint took.
        """
        self._waiting = waiting
        self._open_process = open_process
        self._on_written = on_written
        self._process = open_process()
        self._is_fresh = True  # just opened: it holds version 0
        self._under_way: list[Task] = ["start"]  # the first is being done
        self._num_retries = 0  # of publishing, that wait for their moment
        self._num_failures = self._num_losses = 0
        self._version = self._furthest = 0  # steps made, and made at most
        self.pid: int | None = None
        self.snapshots = Snapshots(Path())

    @property
    def is_busy(self) -> bool:
        """Whether something it was told to do is not done."""
        return bool(self._under_way or self._num_retries)

    def restore(
        self, checkpoints: Sequence[Checkpoint], place: Callable[[Checkpoint], Path]
    ) -> Checkpoint:
        """Load the newest checkpoint that is whole, and wait for it; the last is the beginning."""
        self._num_retries = 0
        while True:
            try:
                checkpoint = self._restore(checkpoints, place)
            except ray.exceptions.RayActorError as error:
                self.reopen(why_lost(error))
            else:
                self._under_way = []
                self._version = checkpoint.version
                self._furthest = max(self._furthest, self._version)
                return checkpoint

    def begin_session(self, snapshots: Snapshots) -> None:
        """Publish there, and hear of it when the process is lost, also while it waits."""
        self.snapshots = snapshots
        ended = self._process.stay.options(concurrency_group="stay").remote()

        def lost(error: Exception) -> None:  # what it did before that comes first
            self._waiting.after(0.0, lambda: _lost(error))

        self._waiting.call(ended, lambda _: None, lost)

    def reopen(self, reason: str) -> None:
        """The process is lost: begin another.

        Raises:
            AspError: It was, too often.
        """
        self._num_losses += bool(self._under_way)
        if self._num_losses >= MOST_LOSSES:
            raise AspError(
                f"the Training Unit was lost {self._num_losses} times without a new step between; "
                f"the last time as it was to {self._under_way[0]}: {reason}; {WAY_OUT}"
            )
        log.warning("the Training Unit is lost and begins anew: %s", reason)
        self._begin_anew()

    def train(
        self, groups: Sequence[SampleGroup], on_trained: Callable[[dict[str, Any], float], None]
    ) -> None:
        """Make a step; tell its metrics and seconds."""

        def trained(done: tuple[dict[str, Any], float]) -> None:
            self._version += 1
            if self._version > self._furthest:
                self._furthest, self._num_losses = self._version, 0
            on_trained(*done)

        self._is_fresh = False
        self._call("train", self._process.train.remote(groups), trained, _raise)

    def publish(self, on_published: Callable[[int], None]) -> None:
        """Write a snapshot of what the weights then are; again where that fails."""

        def published(done: tuple[int, float]) -> None:
            self._num_failures = 0
            self._on_written(done[1])
            on_published(done[0])

        def failed(error: Exception) -> None:
            if not isinstance(error, AspError):
                raise error
            self._num_failures += 1
            if self._num_failures > MOST_FAILURES:
                raise error
            log.warning("no snapshot, which is tried again: %s", error)
            self._num_retries += 1  # the run is not over before it is there
            self._waiting.after(RETRY_S, again)

        def again() -> None:
            self._num_retries -= 1
            self.publish(on_published)

        publishing = self._process.publish.remote(self.snapshots)
        self._call("write a snapshot", publishing, published, failed)

    def save(self, path: Path, on_saved: Callable[[], None]) -> None:
        """Write a checkpoint of what the weights then are."""

        def saved(seconds: float) -> None:
            self._on_written(seconds)
            on_saved()

        def failed(error: Exception) -> None:
            if not isinstance(error, AspError):
                raise error
            log.warning("no checkpoint; the last one stands: %s", error)

        self._call("write a checkpoint", self._process.save.remote(path), saved, failed)

    def close(self) -> None:
        """End the process."""
        ray.kill(self._process)

    def _restore(
        self, checkpoints: Sequence[Checkpoint], place: Callable[[Checkpoint], Path]
    ) -> Checkpoint:
        self._start()
        for checkpoint in checkpoints:
            if not checkpoint.session:
                if not self._is_fresh:
                    self._begin_anew()
                    self._start()
                return checkpoint
            self._under_way = ["load a checkpoint"]
            try:
                ray.get(self._process.load.remote(place(checkpoint)))
            except ray.exceptions.RayTaskError as error:
                if not isinstance(error.cause, AspError):
                    raise
                log.warning("a checkpoint is passed over: %s", error.cause)
            else:
                self._is_fresh = False
                return checkpoint
        raise AssertionError("the beginning is always there")

    def _begin_anew(self) -> None:
        ray.kill(self._process)
        self._process, self._is_fresh = self._open_process(), True

    def _start(self) -> None:
        """Wait until the process is up; whatever another was told to do is forgotten."""
        self._under_way = ["start"]
        self.pid = ray.get(self._process.process.remote())

    def _call(
        self,
        task: Task,
        ref: "ray.ObjectRef[Any]",
        on_result: Callable[[Any], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        def done(result: Any) -> None:
            self._under_way.remove(task)
            on_result(result)

        def failed(error: Exception) -> None:
            if isinstance(error, ray.exceptions.RayActorError):
                _lost(error)
            self._under_way.remove(task)
            on_error(error)

        self._under_way.append(task)
        self._waiting.call(ref, done, failed)


def _lost(error: Exception) -> None:
    raise TrainingLost(why_lost(error))


def _raise(error: Exception) -> None:
    raise error
