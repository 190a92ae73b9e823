"""Where does a run keep what it has?

    journal.sqlite                  every sample group's state
    checkpoints/VERSION-SESSION     what the Training Unit goes on from
    snapshots/SESSION/VERSION       weights for the engines
    model                           the weights, once all steps are trained
    metrics.parquet, trace.parquet  then, too
    rollouts.parquet                then, where a model answered: its responses, a profile
    refreshed/epoch_N               lengths as of the start of an epoch, and how it was dealt

A session is the time from one start or rollback to the next. Each has names of its own, so what a
process of an earlier one may still write is never taken for something of a later one.
"""

import fcntl
import os
import shutil
from collections.abc import Collection
from pathlib import Path

from rollout.trainer.resume import Checkpoint
from rollout.trainer.snapshots import Snapshots
from stages.tables.errors import AspError
from stages.tables.io import write_bytes

JOURNAL = "journal.sqlite"
LOCK = ".lock"


class RunDir:
    """The directory, held against other runs until the process ends."""

    def __init__(self, path: str, force: bool) -> None:
        """Create or enter it.

        Raises:
            AspError: It holds something else or a finished run, is in use, or is not writable.
        """
        self.path = Path(path).absolute()  # other processes may stand elsewhere
        try:
            self._enter(force)
        except OSError as error:
            raise AspError(f"{path}: cannot be written: {error.strerror}") from None

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.path / JOURNAL

    @property
    def model(self) -> Path:
        """The trained weights."""
        return self.path / "model"

    def snapshots(self, session: int) -> Snapshots:
        """Of a session."""
        return Snapshots(self.path / "snapshots" / str(session))

    def checkpoint(self, version: int, session: int) -> Path:
        """Where the Training Unit saves a version."""
        return self.path / "checkpoints" / f"{version:08d}-{session}"

    def begin(self, session: int) -> None:
        """Make room for a session, without the snapshots of earlier ones."""
        shutil.rmtree(self.path / "snapshots", ignore_errors=True)
        self.snapshots(session).folder.mkdir(parents=True, exist_ok=True)
        (self.path / "checkpoints").mkdir(exist_ok=True)

    def keep(self, checkpoints: Collection[Checkpoint]) -> None:
        """Remove all other checkpoints."""
        kept = {self.checkpoint(each.version, each.session) for each in checkpoints}
        for entry in (self.path / "checkpoints").iterdir():
            if entry not in kept:
                shutil.rmtree(entry, ignore_errors=True)

    def refreshed(self, epoch: int) -> Path:
        """Lengths as of the start of an epoch."""
        return self.path / "refreshed" / f"epoch_{epoch}"

    def keep_lengths(self, epoch: int, lengths: str) -> None:
        """Where all nodes find it: the table that the first epoch was dealt by."""
        kept = self.refreshed(epoch) / "lengths.parquet"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(Path(lengths).read_bytes(), str(kept), force=False)

    def refreshing(self, epoch: int, session: int) -> Path:
        """Where a process of a session writes them."""
        return self.path / "refreshed" / f".epoch_{epoch}-{session}.tmp"

    def keep_refreshed(self, epoch: int, session: int) -> None:
        """They are whole."""
        self.forget_refreshed(epoch)
        os.replace(self.refreshing(epoch, session), self.refreshed(epoch))

    def forget_refreshed(self, epoch: int) -> None:
        """They rest on steps that are void."""
        shutil.rmtree(self.refreshed(epoch), ignore_errors=True)

    def finish(self, snapshot: Path) -> None:
        """The snapshot is the trained model; what a resumed run would need goes."""
        if self.model.exists():
            shutil.rmtree(self.model)
        os.replace(snapshot, self.model)
        for folder in (self.path / "checkpoints", self.path / "snapshots"):
            shutil.rmtree(folder, ignore_errors=True)
        for left in self.path.glob("refreshed/.*.tmp"):
            shutil.rmtree(left, ignore_errors=True)

    def close(self) -> None:
        """Let other runs in."""
        self._lock.close()

    def _enter(self, force: bool) -> None:
        check_place(self.path, force)
        self.path.mkdir(exist_ok=True)
        self._lock = (self.path / LOCK).open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AspError(
                f"{self.path}: another run is writing there; wait, or give another --output"
            ) from None
        if force:
            for entry in self.path.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                elif entry.name != LOCK:
                    entry.unlink()


def check_place(path: Path, force: bool) -> None:
    """Refuse what no run may write to; nothing is made there.

    Raises:
        AspError: It is a file, has no folder, holds something else or, without force, a finished
            run.
    """
    if path.exists() and not path.is_dir():
        raise AspError(f"{path}: is a file; the output here is a directory")
    if not path.parent.is_dir():
        raise AspError(f"{path}: the folder {path.parent} does not exist; create it first")
    held = {entry.name for entry in path.iterdir()} if path.exists() else set()
    if held - {LOCK} and JOURNAL not in held:
        raise AspError(
            f"{path}: holds files but no {JOURNAL}, so no run wrote it; give another --output"
        )
    if "model" in held and not force:
        raise AspError(
            f"{path}: holds a finished run; give --force to start over, or another --output"
        )
