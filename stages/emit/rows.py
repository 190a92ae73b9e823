"""The user's own prompt rows: read for their hashes, copied in another order, never changed.

`stages/tables/io.py` opens the toolchain's tables, whose columns it knows and casts. The rows here
belong to the user: their columns may be anything, and a trainer must find each value as it was. So
they are copied without being interpreted, by one class a file format, and only the prompts are
looked at, through the same canonical text that profile and predict hash.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.emit.rows_jsonl import JsonLines
from stages.emit.rows_parquet import ParquetRows
from stages.tables.errors import AspError, first_few
from stages.tables.prompts import canonical_text, prompt_hash
from stages.tables.records import is_json
from stages.tables.stream import readable_twice

Ints = NDArray[np.int64]


class UserRows(Protocol):
    """A prompt file of the user, open for reading."""

    name: str  # for messages
    sha256: str  # of the file's bytes
    data_file: str  # name of the copy
    has_text_prompts: bool  # text, or else lists of {role, content}

    def __len__(self) -> int:
        """Number of rows."""

    def prompts(self) -> Iterator[object]:
        """Each row's prompt, in the order of the file."""

    def columns(self) -> Iterable[str]:
        """Names of the columns."""

    def write(self, rows: Ints, folder: Path, added: pl.DataFrame | None = None) -> None:
        """Write the given rows, by their position and in this order, as `folder / data_file`.

        Each gets the row of `added` with the same number in the output.
        """


@contextmanager
def open_rows(path: str, column: str) -> Iterator[UserRows]:
    """Open a Parquet or JSON lines file, told apart by the first bytes; `-` is standard input.

    Raises:
        AspError: The file cannot be read, is neither, has no rows or no such column.
    """
    with readable_twice(path) as (name, file):
        kind = JsonLines if is_json(file, name) else ParquetRows
        with open(file, "rb") as source:
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
            source.seek(0)
            rows: UserRows = kind(name, sha256, source, column)
            if not len(rows):
                raise AspError(f"{name}: holds no prompts: it has zero rows")
            yield rows


def hash_prompts(rows: UserRows, column: str) -> list[str]:
    """The hash of each row's canonical text.

    Raises:
        AspError: A prompt is null, empty, or neither text nor a list of messages.
    """
    texts = (canonical_text(prompt) for prompt in rows.prompts())
    hashes = [prompt_hash(text) if text and text.strip() else None for text in texts]
    bad = [row for row, value in enumerate(hashes) if value is None]
    if bad:
        raise AspError(
            f"{rows.name}: column {column!r}: {len(bad)} prompts are null, empty or neither text "
            f"nor a list of {{role, content}}, first in row {first_few(bad)} (from 0); mend them"
        )
    return [value for value in hashes if value is not None]
