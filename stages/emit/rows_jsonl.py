"""Rows of a JSON lines file, copied byte for byte, in another order."""

import json
from array import array
from collections.abc import Iterator
from io import BufferedIOBase
from itertools import repeat
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.tables.errors import AspError
from stages.tables.prompts import BYTE_ORDER_MARK, parse_json_line

NEWLINE = b"\n"


class JsonLines:
    """A row is a line that is not blank. Memory: 8 bytes a row."""

    data_file = "prompts.jsonl"

    def __init__(self, name: str, sha256: str, source: BufferedIOBase, column: str) -> None:
        self.name = name
        self.sha256 = sha256
        self._source = source
        self._column = column
        self._starts = array("q")
        self.has_text_prompts = True
        self._columns: set[str] = set()
        for start, record in self._records():
            self._starts.append(start)
            self._columns.update(record)
            self.has_text_prompts &= isinstance(record.get(column), str)
        if self._starts and column not in self._columns:
            raise AspError(
                f"{name}: no column {column!r} (--prompt-column); "
                f"its first row has {', '.join(record) or 'no columns'}"
            )

    def __len__(self) -> int:
        return len(self._starts)

    def _records(self) -> Iterator[tuple[int, dict[str, object]]]:
        """Where each row starts, in bytes, and what it holds."""
        # A byte order mark belongs to the file, not to its first row, which may move.
        self._source.seek(0)
        start = len(BYTE_ORDER_MARK) if self._source.read(3) == BYTE_ORDER_MARK else 0
        self._source.seek(start)
        for number, line in enumerate(self._source, start=1):
            if line.strip():
                yield start, parse_json_line(self.name, number, line)
            start += len(line)

    def prompts(self) -> Iterator[object]:
        """Each row's prompt, as it stands."""
        return (record.get(self._column) for _, record in self._records())

    def columns(self) -> set[str]:
        """Every key of every row."""
        return self._columns

    def write(
        self, rows: NDArray[np.int64], folder: Path, added: pl.DataFrame | None = None
    ) -> None:
        """Copy the lines as they are, added columns before the closing brace.

        A last line without an end gets one.
        """
        extras = repeat({}) if added is None else added.iter_rows(named=True)
        with open(folder / self.data_file, "wb") as out:
            for row, extra in zip(rows.tolist(), extras, strict=False):
                self._source.seek(self._starts[row])
                line = self._source.readline()
                if extra:
                    line = _with_keys(line, extra)
                out.write(line if line.endswith(NEWLINE) else line + NEWLINE)


def _with_keys(line: bytes, extra: dict[str, object]) -> bytes:
    """The object of a line with more keys at its end, all other bytes as they were."""
    body = line.rstrip()
    return body[:-1] + b", " + json.dumps(extra).encode()[1:] + line[len(body) :]
