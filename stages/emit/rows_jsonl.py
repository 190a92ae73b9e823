"""Rows of a JSON lines file, copied byte for byte, in another order."""

from array import array
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

import numpy as np
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
        has_column = False
        for start, record in self._records():
            self._starts.append(start)
            has_column = has_column or column in record
            self.has_text_prompts &= isinstance(record.get(column), str)
        if self._starts and not has_column:
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

    def write(self, rows: NDArray[np.int64], folder: Path) -> None:
        """Copy the lines as they are; a last line without an end gets one."""
        with open(folder / self.data_file, "wb") as out:
            for row in rows.tolist():
                self._source.seek(self._starts[row])
                line = self._source.readline()
                out.write(line if line.endswith(NEWLINE) else line + NEWLINE)
