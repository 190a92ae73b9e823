"""How is a journal kept on disk?

A SQLite file with one writer, in WAL mode and flushed at each commit, so that a kill leaves it as
it was at the last one. Other processes may read it meanwhile.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stages.tables.errors import AspError, difference


class Database:
    """Tables, transactions, and what is said where the file lets one down."""

    def __init__(self, path: Path, tables: Sequence[str]) -> None:
        """Open or create.

        Args:
            path: The file.
            tables: SQL that creates those that are not there.

        Raises:
            AspError: It is in use, no journal, or unwritable.
        """
        self._path = path
        with self._mistakes():
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
        with self.commit() as db:
            for statement in tables:
                db.execute(statement)

    @contextmanager
    def commit(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of the block is durable after it, or nothing."""
        with self._mistakes():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._mistakes():
            return self._db.execute(query, values).fetchall()

    def match_settings(
        self, settings: Mapping[str, Any], begin: Callable[[sqlite3.Connection], None]
    ) -> None:
        """See that the run that is there has the same settings.

        Args:
            settings: By name.
            begin: Fills the tables of a new run, in one transaction with its settings.

        Raises:
            AspError: The run that is there has others.
        """
        wanted = {n: json.dumps(v, sort_keys=True, default=str) for n, v in settings.items()}
        held = dict(self.read("SELECT name, value FROM settings"))
        if not held:
            with self.commit() as db:
                db.executemany("INSERT INTO settings VALUES (?, ?)", wanted.items())
                begin(db)
        elif held != wanted:
            self.close()
            raise AspError(
                f"{self._path.parent}: holds a run with other settings: "
                f"{difference(held, wanted)}; repeat that run's flags to resume it, or give "
                "--force to start over, or another --output"
            )

    def close(self) -> None:
        """Leave it for a later run."""
        self._db.close()

    @contextmanager
    def _mistakes(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise  # of who writes, not of the file
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
