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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rollout.control.messages import HeldOver, Response, Train, Unfinished
from rollout.control.plan import Plan
from stages.tables.errors import AspError

FORMAT = "1"  # of the tables below
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
CREATE TABLE IF NOT EXISTS trace (row TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS occupancy (row TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (unit TEXT PRIMARY KEY, spent TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS processes (unit TEXT PRIMARY KEY, pid INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS clock (seconds REAL NOT NULL);
"""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run can go on, beside what the Training Unit saved."""

    version: int = 0
    session: int = 0  # in which it was saved; 0: it is the beginning, and nothing was
    held_over: tuple[HeldOver, ...] = ()
    drafts: dict[str, Any] | None = None  # as `Stock.held` gave them


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
        self._path = path
        self._noted: dict[int, tuple[State, int | None]] = {}
        with self._mistakes():
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.strip().split(";\n"):
                self._db.execute(statement)
            wanted = {"journal": FORMAT}
            wanted |= {n: json.dumps(v, sort_keys=True, default=str) for n, v in settings.items()}
            held = dict(self._db.execute("SELECT name, value FROM settings"))
            if not held:
                self._db.executemany("INSERT INTO settings VALUES (?, ?)", wanted.items())
                self._db.executemany(
                    "INSERT INTO groups (number, prompt, epoch) VALUES (?, ?, ?)",
                    zip(range(len(plan.prompt_g)), plan.prompt_g, plan.epoch_g, strict=True),
                )
            self._db.execute("COMMIT")
        if held and held != wanted:
            self.close()
            raise AspError(
                f"{path.parent}: holds a run with other settings: {_difference(held, wanted)}; "
                "repeat that run's flags to resume it, or give --force to start over, or another "
                "--output"
            )

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
        with self._commit():
            try:
                self._db.executemany("INSERT INTO trained VALUES (?, ?, ?, ?, ?, ?)", rows)
            except sqlite3.IntegrityError:
                raise AssertionError(f"step {train.step} trains on a group again") from None
            self._db.execute(
                "INSERT INTO steps VALUES (?, ?, ?)",
                (train.step, json.dumps(row), json.dumps(dict(metrics))),
            )

    def saved(self, checkpoint: Checkpoint) -> None:
        """The Training Unit has saved this version; from now on a run resumes there.

        The one before is kept, should this one be found damaged.
        """
        held_over = json.dumps(checkpoint.held_over)
        with self._commit():
            self._db.execute(
                "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)",
                (
                    checkpoint.version,
                    checkpoint.session,
                    held_over,
                    json.dumps(checkpoint.drafts),
                ),
            )
            self._db.execute(
                "DELETE FROM checkpoints WHERE version NOT IN "
                "(SELECT version FROM checkpoints ORDER BY version DESC LIMIT 2)"
            )

    def keep(
        self,
        seconds: float,
        trace: Iterable[Sequence[Any]],
        occupancy: Iterable[Sequence[Any]],
        spent_u: Mapping[str, Mapping[str, float]],
        processes: Mapping[str, int],
    ) -> None:
        """What happened since the last time, with all that was noted."""
        with self._commit():
            self._db.executemany("INSERT INTO trace VALUES (?)", _rows(trace))
            self._db.executemany("INSERT INTO occupancy VALUES (?)", _rows(occupancy))
            self._db.executemany(
                "INSERT OR REPLACE INTO ledger VALUES (?, ?)", _texts(spent_u).items()
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO processes VALUES (?, ?)", processes.items()
            )
            self._db.execute("DELETE FROM clock")
            self._db.execute("INSERT INTO clock VALUES (?)", (seconds,))

    # Where a run goes on ----------------------------------------------------------------------

    def checkpoints(self) -> list[Checkpoint]:
        """Newest first; the last is the beginning."""
        found = self._read("SELECT * FROM checkpoints ORDER BY version DESC")
        return [
            Checkpoint(
                version, session, tuple(map(_held_over, json.loads(held))), json.loads(drafts)
            )
            for version, session, held, drafts in found
        ] + [Checkpoint()]

    def begin(self, checkpoint: Checkpoint) -> int:
        """Forget what came after a checkpoint, and begin a session there; its number, from 1."""
        version = (checkpoint.version,)
        with self._commit():
            self._noted.clear()
            for table in ("trained", "steps"):
                self._db.execute(f"DELETE FROM {table} WHERE step >= ?", version)
            self._db.execute("DELETE FROM checkpoints WHERE version > ?", version)
            self._db.execute(
                "UPDATE groups SET state = 'planned', version = NULL "
                "WHERE number NOT IN (SELECT number FROM trained)"
            )
            number = self._db.execute(
                "INSERT INTO sessions (version) VALUES (?) RETURNING number", version
            ).fetchone()[0]
        self.note((each.group for each in checkpoint.held_over), "dispatched")
        return int(number)

    # What it came to --------------------------------------------------------------------------

    def seconds(self) -> float:
        """That the run has taken so far, over all its parts."""
        return float(next(iter(self._read("SELECT seconds FROM clock")), (0.0,))[0])

    def rows(self, table: Literal["trace", "occupancy"]) -> list[tuple[Any, ...]]:
        """All rows that were kept."""
        return [tuple(json.loads(row)) for (row,) in self._read(f"SELECT row FROM {table}")]

    def steps(self) -> list[tuple[list[Any] | None, dict[str, Any]]]:
        """Row and metrics of each step."""
        found = self._read("SELECT row, metrics FROM steps ORDER BY step")
        return [(json.loads(row), json.loads(metrics)) for row, metrics in found]

    def lags(self) -> dict[int, int]:
        """Of each sample group that was trained on."""
        return dict(self._read("SELECT number, lag FROM trained ORDER BY step, number"))

    def failed(self) -> frozenset[int]:
        """Sample groups in which something never came."""
        return frozenset(n for (n,) in self._read("SELECT number FROM trained WHERE failed"))

    def lengths(self) -> list[tuple[list[int], list[int]]]:
        """Tokens of the responses of each group trained on, and of those generated first."""
        found = self._read("SELECT tokens, offered FROM trained ORDER BY number")
        return [(json.loads(made), json.loads(offered)) for made, offered in found]

    def spent_u(self) -> dict[str, dict[str, float]]:
        """Device-seconds by unit, and by what they were spent on."""
        found = self._read("SELECT unit, spent FROM ledger")
        return {unit: json.loads(spent) for unit, spent in found}

    def close(self) -> None:
        """Leave it for a later run."""
        self._db.close()

    @contextmanager
    def _commit(self) -> Iterator[None]:
        """One transaction, with all that was noted."""
        with self._mistakes():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(
                    "UPDATE groups SET state = ?, version = coalesce(?, version) WHERE number = ?",
                    [(state, version, group) for group, (state, version) in self._noted.items()],
                )
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._noted.clear()

    def _read(self, query: str) -> list[tuple[Any, ...]]:
        with self._mistakes():
            return self._db.execute(query).fetchall()

    @contextmanager
    def _mistakes(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise AspError(
                    f"{self._path.parent}: another run is writing there; wait, or give another "
                    "--output"
                ) from None
            if isinstance(error, sqlite3.OperationalError):
                raise AspError(f"{self._path}: cannot be written: {error}") from None
            raise AspError(
                f"{self._path}: is no journal of this tool, or damaged ({error}); give another "
                "--output"
            ) from None


def _rows(rows: Iterable[Sequence[Any]]) -> list[tuple[str]]:
    return [(json.dumps(row),) for row in rows]


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in values.items()}


def _held_over(values: list[Any]) -> HeldOver:
    group, step, first_version, unfinished = values
    left = tuple(Unfinished(s, r, Response(*response)) for s, r, response in unfinished)
    return HeldOver(group, step, first_version, left)


def _difference(held: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """`max_lag 4 there, 1 now; ...`."""
    names = sorted(n for n in held.keys() | wanted.keys() if held.get(n) != wanted.get(n))
    return "; ".join(
        f"{name} {held.get(name, 'none')[:24]} there, {wanted.get(name, 'none')[:24]} now"
        for name in names
    )
