"""What a killed run had finished: OUTPUT.journal, a SQLite file beside the output.

What is finished together is one transaction, durable when `record` returns. The journal belongs to
one set of settings; a run with other ones is refused, not mixed in. It is deleted when the output
stands.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stages.profile.engine import Answer, Finished, Key, Unanswered
from stages.tables.errors import AspError, Stopped, difference, log
from stages.tables.io import STDIO

_TABLES = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS responses (
    prompt_id INTEGER, sample_index INTEGER, answer TEXT NOT NULL,
    PRIMARY KEY (prompt_id, sample_index)
) WITHOUT ROWID;
"""
# One statement, hence one call: a signal comes before it or after it, never between.
_RECORD = """
INSERT INTO responses SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'),
    json_extract(value, '$[2]') FROM json_each(?)
"""


def journal_path(output: str) -> Path | None:
    """Where the journal of an output lies; None for standard output, which cannot be resumed."""
    return None if output == STDIO else Path(f"{output}.journal")


class Journal:
    """The finished responses of a run; in memory only where `path` is None."""

    def __init__(self, path: Path | None, settings: Mapping[str, Any], force: bool) -> None:
        """Open or create.

        Args:
            path: The journal's file.
            settings: What decides the answers, by the name that a message shows.
            force: Start over where the journal is of other settings.

        Raises:
            AspError: Other settings and no `force`, not a journal, in use, or unwritable.
        """
        self._path = path
        self._connection = self._open()
        wanted = {name: json.dumps(value, sort_keys=True) for name, value in settings.items()}
        held = dict(self._run("SELECT name, value FROM settings"))
        if held and held != wanted:
            if not force:
                self.close()
                raise AspError(
                    f"{path}: is of a run with other settings: {difference(held, wanted)}; "
                    "repeat that run's flags to resume it, or give --force (or remove the "
                    "journal) to start over"
                )
            log.info("%s: is of a run with other settings; starting over (--force)", path)
            self.discard()
            self._connection = self._open()
            held = {}
        if not held:
            self._run(
                "INSERT INTO settings SELECT key, value FROM json_each(?)", json.dumps(wanted)
            )

    def finished(self) -> dict[Key, Answer]:
        """Every answer kept, by its request's key."""
        rows = self._run("SELECT prompt_id, sample_index, answer FROM responses")
        return {(prompt, sample): Answer(**json.loads(answer)) for prompt, sample, answer in rows}

    def record(self, finished: Finished) -> None:
        """Keep what is finished."""
        self._run(_RECORD, json.dumps([[*request.key, asdict(a)] for request, a in finished]))

    def leave(self) -> str:
        """Close; say what is kept and how to go on. A file that holds nothing is deleted."""
        ((num_responses,),) = self._run("SELECT count(*) FROM responses")
        if num_responses == 0:
            self.discard()
            return "nothing was finished"
        self.close()
        if self._path is None:
            return "nothing is kept, for the output is standard output"
        kept = f"{num_responses} responses are kept in {self._path}"
        return f"{kept}; the same command goes on from there"

    def close(self) -> None:
        """Leave the file for a later run."""
        self._connection.close()

    def discard(self) -> None:
        """Close and delete the file."""
        self.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path or ":memory:", timeout=0, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(f"BEGIN; {_TABLES} COMMIT;")
        except sqlite3.Error as error:
            connection.close()
            raise self._mistake(error) from None
        return connection

    def _run(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        """Run one statement, which is a transaction."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._mistake(error) from None

    def _mistake(self, error: sqlite3.Error) -> AspError:
        if "locked" in str(error) or isinstance(error, sqlite3.IntegrityError):
            return AspError(
                f"{self._path}: another run is writing it; wait, or give another --output"
            )
        if isinstance(error, sqlite3.OperationalError):
            return AspError(f"{self._path}: cannot be written: {error}")
        return AspError(f"{self._path}: is not a journal of this tool ({error}); remove it")


@contextmanager
def open_journal(output: str, settings: Mapping[str, Any], force: bool) -> Iterator[Journal]:
    """The journal of an output, closed at the end and left in place; `discard` deletes it.

    Raises:
        Stopped: The user stopped the block.
        AspError: An engine gave up; told with what is kept.
    """
    path = journal_path(output)
    journal = Journal(path, settings, force)
    try:
        yield journal
    except KeyboardInterrupt:
        raise Stopped(f"stopped; {journal.leave()}") from None
    except Unanswered as error:
        raise AspError(f"{error}; {journal.leave()}") from None
    finally:
        journal.close()
