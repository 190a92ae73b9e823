"""Rows of any Parquet or JSON lines file, as the user wrote them, a batch at a time."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from stages.tables.io import readable
from stages.tables.prompts import is_json_lines, parse_json_line
from stages.tables.stream import ParquetRows

HEAD_BYTES = 64
Records = pl.DataFrame | list[dict[str, Any]]  # rows of a Parquet or of a JSON lines file


def is_json(path: Path, name: str) -> bool:
    """Whether a file holds JSON lines rather than Parquet, told by its first bytes.

    Raises:
        AspError: It cannot be read, on this node if not on another.
    """
    with readable(name), open(path, "rb") as file:
        return is_json_lines(file.read(HEAD_BYTES))


def read_records(
    path: Path, name: str, columns: list[str] | None, num_rows: int
) -> Iterator[Callable[[], Records]]:
    """What reads each batch of rows: a batch that is passed over costs no parsing.

    JSON values are taken as they are. A table would add the keys of other rows as nulls, and a
    prompt's text would depend on its neighbours.
    """
    if not is_json(path, name):
        for frame in ParquetRows(name, path).batches(columns or [], num_rows):
            yield lambda frame=frame: frame  # type: ignore[misc]
        return
    with open(path, "rb") as file:
        lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        while batch := list(islice(lines, num_rows)):
            yield lambda batch=batch: [parse_json_line(name, n, line) for n, line in batch]  # type: ignore[misc]


def values(records: Records, column: str) -> list[Any]:
    """A column's values; nulls where there is none."""
    if isinstance(records, list):
        return [record.get(column) for record in records]
    return records[column].to_list() if column in records.columns else [None] * len(records)
