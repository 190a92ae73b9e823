"""Files larger than memory, a batch of rows at a time.

Beside `io.py` the one place that opens Parquet. A batch read holds as many rows as asked, however
the file is cut into row groups. What is written appears under its name whole or not at all, with
the bytes that `io.write_table` gives the same rows at once.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import dataframely as dy
import polars as pl

from stages.tables.errors import AspError
from stages.tables.io import (
    ROW_GROUP_ROWS,
    STDIO,
    conform,
    name_of,
    new_file,
    not_parquet,
    readable,
    standard_input,
    standard_output,
)
from stages.tables.provenance import FOOTER_KEY, Provenance
from stages.tables.schemas import table_name

READ_BUFFER_BYTES = 2**20  # a column chunk is streamed, not loaded whole
PART_ROWS = 2**16  # of an output, in memory before they go to disk


@contextmanager
def readable_twice(path: str) -> Iterator[tuple[str, Path]]:
    """A name for messages, and a regular file: `path`, or a copy on disk of what a pipe holds.

    Raises:
        AspError: The file cannot be read.
    """
    name = name_of(path)
    if path != STDIO and Path(path).is_file():
        yield name, Path(path)
        return
    with tempfile.NamedTemporaryFile(prefix="asp-") as copy:
        with readable(name), _opened(path) as pipe:
            shutil.copyfileobj(pipe, copy)
            copy.flush()
        yield name, Path(copy.name)


def _opened(path: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(standard_input()) if path == STDIO else open(path, "rb")


class ParquetRows:
    """A Parquet file that anyone may have written, read in batches of its rows."""

    def __init__(self, name: str, path: Path) -> None:
        # Imported here: most commands need polars alone.
        import pyarrow.parquet as pq

        self._name = name
        with open(path, "rb") as file:
            self._head = file.read(4)
        with self._readable():
            self._file = pq.ParquetFile(path, pre_buffer=False, buffer_size=READ_BUFFER_BYTES)
            self.columns: list[str] = self._file.schema_arrow.names

    def batches(self, columns: list[str], num_rows: int) -> Iterator[pl.DataFrame]:
        """Some columns, `num_rows` rows at a time; the last batch holds the rest."""
        for column in columns:
            if (number := self.columns.count(column)) > 1:
                raise AspError(
                    f"{self._name}: has {number} columns of the name {column!r}; rename one"
                )
        held: list[pl.DataFrame] = []
        for piece in self._pieces(columns, num_rows):
            held.append(piece)
            if sum(map(len, held)) >= num_rows:
                frame = pl.concat(held)
                yield frame[:num_rows]
                held = [frame[num_rows:]]
        rest = pl.concat(held) if held else None
        if rest is not None and len(rest):
            yield rest

    def _pieces(self, columns: list[str], num_rows: int) -> Iterator[pl.DataFrame]:
        """At most `num_rows` rows each."""
        import pyarrow as pa

        pieces = self._file.iter_batches(num_rows, columns=columns)
        while True:
            with self._readable():
                batch = next(pieces, None)
                if batch is None:
                    return
                batch.validate(full=True)  # polars trusts text to be UTF-8
                piece = pl.DataFrame(pa.Table.from_batches([batch]).select(columns))
            yield piece

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """What goes wrong in here is the file's fault."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
            raise not_parquet(self._name, self._head, error) from None


def write_batches(
    frames: Iterable[pl.DataFrame],
    schema: type[dy.Schema],
    path: str,
    provenance: Provenance,
    force: bool,
) -> None:
    """Validate the pieces of a table and write them as one; rules across pieces are not checked.

    The pieces are kept on disk beside the output until the last has come, so that an output is
    whole and memory does not grow with it.

    Raises:
        AspError: The output exists and `force` is not set, or cannot be written.
    """
    if path == STDIO:
        with tempfile.TemporaryDirectory(prefix="asp-") as folder:
            whole = Path(folder) / "whole.parquet"
            _gather(frames, schema, whole, Path(folder), provenance)
            with open(whole, "rb") as file, standard_output() as stream:
                shutil.copyfileobj(file, stream)
        return
    with (
        new_file(path, force) as temporary,
        tempfile.TemporaryDirectory(dir=temporary.parent, prefix=".asp-") as folder,
    ):
        _gather(frames, schema, temporary, Path(folder), provenance)


def _gather(
    frames: Iterable[pl.DataFrame],
    schema: type[dy.Schema],
    path: Path,
    folder: Path,
    provenance: Provenance,
) -> None:
    """Put the pieces into `folder`, then all of them into one Parquet file."""
    parts: list[Path] = []
    held: list[pl.DataFrame] = []

    def put_away() -> None:
        parts.append(folder / f"part-{len(parts)}.arrow")
        pl.concat(held).write_ipc(parts[-1])
        held.clear()

    for frame in frames:
        held.append(conform(frame, schema, f"the {table_name(schema)} table to write"))
        if sum(map(len, held)) >= PART_ROWS:
            put_away()
    if held:
        put_away()
    pl.scan_ipc(parts).sink_parquet(
        path, row_group_size=ROW_GROUP_ROWS, metadata={FOOTER_KEY: provenance.to_json()}
    )
