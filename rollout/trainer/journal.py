"""What has become of every sample group, whatever is killed?

RUN_DIR/journal.sqlite. News is gathered and committed several times a second; a training step and
a checkpoint are durable when `trained` and `saved` return. What was committed later than the last
checkpoint is rolled back when a run resumes, so the journal always tells the history of the weights
that survive: docs/train.md argues why each sample group is trained on once.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from rollout.control.messages import Train
from rollout.control.plan import Plan
from rollout.trainer.database import Database
from rollout.trainer.observed import Made
from rollout.trainer.resume import Checkpoint, Deal

FORMAT = "3"  # of the tables below
State = Literal["planned", "dispatched", "generated", "queued", "trained"]

_TABLES = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS groups (
    number INTEGER PRIMARY KEY, prompt INTEGER NOT NULL, epoch INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'planned', version INTEGER);
CREATE TABLE IF NOT EXISTS trained (
    number INTEGER PRIMARY KEY REFERENCES groups, step INTEGER NOT NULL, lag INTEGER NOT NULL,
    failed INTEGER NOT NULL, tokens TEXT NOT NULL, offered TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS steps (step INTEGER PRIMARY KEY, row TEXT, metrics TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoints (
    version INTEGER PRIMARY KEY, session INTEGER NOT NULL, held_over TEXT NOT NULL,
    drafts TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (number INTEGER PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS deals (
    epoch INTEGER PRIMARY KEY, version INTEGER NOT NULL, heads TEXT NOT NULL,
    failed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS trace (row TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS occupancy (row TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (unit TEXT PRIMARY KEY, spent TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS processes (unit TEXT PRIMARY KEY, pid INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS clock (seconds REAL NOT NULL);
"""


class Journal:
    """The one writer of a run's journal."""

    def __init__(self, path: Path, settings: Mapping[str, Any], plan: Plan) -> None:
        """Open or create.

        Args:
            path: The SQLite file.
            settings: What a run must share with the one that it resumes, by name.
            plan: Whose sample groups are numbered.

        Raises:
            AspError: It is of a run with other settings, in use, no journal, or unwritable.
        """
        self._noted: dict[int, tuple[State, int | None]] = {}
        self._db = Database(path, _TABLES.strip().split(";\n"))

        def begin(db: sqlite3.Connection) -> None:
            groups = zip(range(len(plan.prompt_g)), plan.prompt_g, plan.epoch_g, strict=True)
            db.executemany("INSERT INTO groups (number, prompt, epoch) VALUES (?, ?, ?)", groups)

        self._db.match_settings({"journal": FORMAT, **settings}, begin)

    # While a run goes on ----------------------------------------------------------------------

    def note(self, groups: Iterable[int], state: State, version: int | None = None) -> None:
        """Sample groups are so far, on this policy version; written with the next commit."""
        self._noted.update(dict.fromkeys(groups, (state, version)))

    def trained(
        self,
        train: Train,
        tokens: Sequence[tuple[list[int], list[int]]],
        row: Sequence[Any] | None,
        metrics: Mapping[str, Any],
    ) -> None:
        """A training step is over.

        Args:
            train: The step.
            tokens: Of each group: tokens of its responses, and of those generated first.
            row: Of the recorder; None: the step had no samples.
            metrics: What the Training Unit measured.

        Raises:
            AssertionError: A sample group was trained on before.
        """
        self.note(train.groups, "trained")
        rows = [
            (group, train.step, lag, group in train.failed, json.dumps(made), json.dumps(offered))
            for group, lag, (made, offered) in zip(train.groups, train.lags, tokens, strict=True)
        ]
        with self._commit() as db:
            try:
                db.executemany("INSERT INTO trained VALUES (?, ?, ?, ?, ?, ?)", rows)
            except sqlite3.IntegrityError:
                raise AssertionError(f"step {train.step} trains on a group again") from None
            db.execute(
                "INSERT INTO steps VALUES (?, ?, ?)",
                (train.step, json.dumps(row), json.dumps(dict(metrics))),
            )

    def saved(self, checkpoint: Checkpoint) -> None:
        """The Training Unit has saved this version; from now on a run resumes there.

        The one before is kept, should this one be found damaged.
        """
        with self._commit() as db:
            db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)", checkpoint.row())
            db.execute(
                "DELETE FROM checkpoints WHERE version NOT IN "
                "(SELECT version FROM checkpoints ORDER BY version DESC LIMIT 2)"
            )

    def dealt(self, deal: Deal) -> None:
        """An epoch is dealt anew, or cannot be; forgotten with the steps that it rests on."""
        with self._commit() as db:
            db.execute("INSERT OR REPLACE INTO deals VALUES (?, ?, ?, ?)", deal.row())

    def keep(
        self,
        seconds: float,
        trace: Iterable[Sequence[Any]],
        occupancy: Iterable[Sequence[Any]],
        spent_u: Mapping[str, Mapping[str, float]],
        processes: Mapping[str, int],
    ) -> None:
        """What happened since the last time, with all that was noted."""
        with self._commit() as db:
            db.executemany("INSERT INTO trace VALUES (?)", _rows(trace))
            db.executemany("INSERT INTO occupancy VALUES (?)", _rows(occupancy))
            db.executemany("INSERT OR REPLACE INTO ledger VALUES (?, ?)", _texts(spent_u).items())
            db.executemany("INSERT OR REPLACE INTO processes VALUES (?, ?)", processes.items())
            db.execute("DELETE FROM clock")
            db.execute("INSERT INTO clock VALUES (?)", (seconds,))

    # Where a run goes on ----------------------------------------------------------------------

    def checkpoints(self) -> list[Checkpoint]:
        """Newest first; the last is the beginning."""
        found = self._db.read("SELECT * FROM checkpoints ORDER BY version DESC")
        return [Checkpoint.of(*row) for row in found] + [Checkpoint()]

    def deals(self) -> dict[int, Deal]:
        """By epoch."""
        found = self._db.read("SELECT * FROM deals ORDER BY epoch")
        return {deal.epoch: deal for deal in (Deal.of(*row) for row in found)}

    def made(self, first_step: int = 0, version: int | None = None) -> list[Made]:
        """The sample groups trained on from this step up to the version, or all since, by number.

        Without those in which something never came.
        """
        found = self._db.read(
            "SELECT prompt, step - lag, tokens, step FROM trained JOIN groups USING (number) "
            "WHERE NOT failed AND step >= ? AND step < coalesce(?, step + 1) ORDER BY number",
            (first_step, version),
        )
        return [
            Made(prompt, first_version, tuple(json.loads(tokens)), step)
            for prompt, first_version, tokens, step in found
        ]

    def begin(self, checkpoint: Checkpoint) -> int:
        """Forget what came after a checkpoint, and begin a session there; its number, from 1."""
        version = (checkpoint.version,)
        with self._commit() as db:
            self._noted.clear()
            for table in ("trained", "steps"):
                db.execute(f"DELETE FROM {table} WHERE step >= ?", version)
            for table in ("checkpoints", "deals"):
                db.execute(f"DELETE FROM {table} WHERE version > ?", version)
            db.execute(
                "UPDATE groups SET state = 'planned', version = NULL "
                "WHERE number NOT IN (SELECT number FROM trained)"
            )
            number = db.execute(
                "INSERT INTO sessions (version) VALUES (?) RETURNING number", version
            ).fetchone()[0]
        self.note((each.group for each in checkpoint.held_over), "dispatched")
        return int(number)

    # What it came to --------------------------------------------------------------------------

    def seconds(self) -> float:
        """That the run has taken so far, over all its parts."""
        return float(next(iter(self._db.read("SELECT seconds FROM clock")), (0.0,))[0])

    def rows(self, table: Literal["trace", "occupancy"]) -> list[tuple[Any, ...]]:
        """All rows that were kept."""
        return [tuple(json.loads(row)) for (row,) in self._db.read(f"SELECT row FROM {table}")]

    def steps(self, first: int = 0) -> list[tuple[list[Any] | None, dict[str, Any]]]:
        """Row and metrics of each step, from this one on."""
        query = "SELECT row, metrics FROM steps WHERE step >= ? ORDER BY step"
        found = self._db.read(query, (first,))
        return [(json.loads(row), json.loads(metrics)) for row, metrics in found]

    def lags(self) -> dict[int, int]:
        """Of each sample group that was trained on."""
        return dict(self._db.read("SELECT number, lag FROM trained ORDER BY step, number"))

    def failed(self) -> frozenset[int]:
        """Sample groups in which something never came."""
        return frozenset(n for (n,) in self._db.read("SELECT number FROM trained WHERE failed"))

    def lengths(self) -> list[tuple[list[int], list[int]]]:
        """Tokens of the responses of each group trained on, and of those generated first."""
        found = self._db.read("SELECT tokens, offered FROM trained ORDER BY number")
        return [(json.loads(made), json.loads(offered)) for made, offered in found]

    def spent_u(self) -> dict[str, dict[str, float]]:
        """Device-seconds by unit, and by what they were spent on."""
        found = self._db.read("SELECT unit, spent FROM ledger")
        return {unit: json.loads(spent) for unit, spent in found}

    def close(self) -> None:
        """Leave it for a later run."""
        self._db.close()

    @contextmanager
    def _commit(self) -> Iterator[sqlite3.Connection]:
        """One transaction, with all that was noted."""
        with self._db.commit() as db:
            db.executemany(
                "UPDATE groups SET state = ?, version = coalesce(?, version) WHERE number = ?",
                [(state, version, group) for group, (state, version) in self._noted.items()],
            )
            yield db
        self._noted.clear()


def _rows(rows: Iterable[Sequence[Any]]) -> list[tuple[str]]:
    return [(json.dumps(row),) for row in rows]


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in values.items()}
