"""Rows of a Parquet file, copied in another order within a bounded memory.

The order is arbitrary and the file may be larger than memory, so rows are dealt, in one pass, into
buckets of consecutive output rows on disk; each bucket is then put in order and becomes a row
group. On the way every column travels in a carrier type (`carriers.py`).
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.emit.carriers import carrier, carrier_schema
from stages.tables.errors import AspError
from stages.tables.io import not_parquet

BATCH_BYTES = 32 * 2**20  # of encoded Parquet, read at a time
BATCH_ROWS = 4096  # at most: encoded bytes can hide much repetition
BUCKET_BYTES = 64 * 2**20  # in memory while a bucket is put in order, thrice
MAX_BUCKETS = 256  # open files; a file above 16 GiB gets larger buckets instead
READ_BUFFER_BYTES = 2**20  # a column chunk is streamed, not loaded whole
ARROW_SCHEMA_KEY = b"ARROW:schema"  # the writer's own, made anew


class ParquetRows:
    """Schema, its metadata, the footer's keys and the compression are the file's own."""

    data_file = "prompts.parquet"

    def __init__(
        self,
        name: str,
        sha256: str,
        source: BufferedIOBase,
        column: str,
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        self.name = name
        self.sha256 = sha256
        self._column = column
        self._bucket_bytes = bucket_bytes
        head = source.read(4)
        with self._readable(head):
            self._file = pq.ParquetFile(source, pre_buffer=False, buffer_size=READ_BUFFER_BYTES)
            self._schema: pa.Schema = self._file.schema_arrow
        num_columns = self._schema.names.count(column)
        if num_columns != 1:
            raise AspError(
                f"{name}: {num_columns or 'no'} column{'s' * (num_columns > 1)} {column!r} "
                f"(--prompt-column); it has {', '.join(self._schema.names) or 'no columns'}"
            )
        self.has_text_prompts = bool(carrier(self._schema.field(column).type) == pa.large_string())

    def __len__(self) -> int:
        num_rows: int = self._file.metadata.num_rows
        return num_rows

    def prompts(self) -> Iterator[object]:
        """Each row's prompt, as polars makes it a Python object, which profile and predict do."""
        for batch in self._batches([self._column]):
            with self._readable():
                batch.validate(full=True)  # polars trusts text to be UTF-8
            prompt = pl.from_arrow(pa.Table.from_batches([batch]).select([self._column]))
            yield from prompt.to_series().to_list()  # type: ignore[union-attr]

    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self._schema.names)

    def write(
        self, rows: NDArray[np.int64], folder: Path, added: pl.DataFrame | None = None
    ) -> None:
        """Deal the rows into buckets, then write a row group a bucket, added columns last.

        Raises:
            AspError: The source is damaged.
            OSError: No space, no permission.
        """
        bucket_rows = math.ceil(len(rows) / self._num_buckets(len(rows)))
        num_buckets = math.ceil(len(rows) / bucket_rows)
        buckets = [folder / f"bucket-{number}" for number in range(num_buckets)]
        by_source = np.argsort(rows, kind="stable")
        self._deal(rows, by_source, bucket_rows, buckets)
        extra = (pl.DataFrame() if added is None else added).to_arrow()
        schema = self._schema
        for field in extra.schema:
            schema = schema.append(field)
        written = 0
        with self._writer(folder / self.data_file, schema) as writer:
            for number, path in enumerate(buckets):
                wanted = rows[number * bucket_rows : (number + 1) * bucket_rows]
                for table in self._ordered(path, wanted):
                    columns = extra.slice(written, len(table)).columns
                    whole = pa.Table.from_arrays([*table.columns, *columns], schema=schema)
                    writer.write_table(whole, row_group_size=len(whole))
                    written += len(whole)
                path.unlink()

    def _num_buckets(self, num_rows: int) -> int:
        """So many that one holds BUCKET_BYTES; measured, since encoded sizes mislead."""
        file_bytes = sum(batch.nbytes for batch in self._batches())
        output_bytes = file_bytes * num_rows / len(self)
        return min(MAX_BUCKETS, num_rows, math.ceil(output_bytes / self._bucket_bytes) or 1)

    def _deal(
        self,
        rows: NDArray[np.int64],
        by_source: NDArray[np.int64],
        bucket_rows: int,
        buckets: list[Path],
    ) -> None:
        """Append each source row to the bucket of each place where it is wanted."""
        wanted = rows[by_source]
        with ExitStack() as stack:
            schema = carrier_schema(self._schema)
            streams = [
                stack.enter_context(
                    pa.ipc.new_stream(stack.enter_context(open(path, "wb")), schema)
                )
                for path in buckets
            ]
            first = 0
            for batch in self._batches():
                lo, hi = np.searchsorted(wanted, [first, first + len(batch)])
                carried = _cast(batch, schema)
                bucket = by_source[lo:hi] // bucket_rows
                for number in np.unique(bucket):
                    taken = wanted[lo:hi][bucket == number] - first
                    streams[number].write_table(pa.Table.from_batches([carried]).take(taken))
                first += len(batch)

    def _ordered(self, path: Path, wanted: NDArray[np.int64]) -> Iterator[pa.Table]:
        """A bucket in output order. It was filled in the order of the source, ties as they came.

        In pieces, should it be much larger than planned, so that 32-bit offsets reach.
        """
        place = np.empty(len(wanted), dtype=np.int64)
        place[np.argsort(wanted, kind="stable")] = np.arange(len(wanted))
        with open(path, "rb") as file:
            table = pa.ipc.open_stream(file).read_all()
        num_pieces = math.ceil(table.nbytes / (4 * self._bucket_bytes)) or 1
        step = math.ceil(len(wanted) / num_pieces)
        for start in range(0, len(wanted), step):
            yield table.take(place[start : start + step]).cast(self._schema)

    @contextmanager
    def _writer(self, path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
        codec = self._file.metadata.row_group(0).column(0).compression
        writer = pq.ParquetWriter(
            path, schema, compression="none" if codec == "UNCOMPRESSED" else codec.lower()
        )
        with writer:
            yield writer
            in_schema = schema.metadata or {}
            in_footer = self._file.metadata.metadata or {}
            writer.add_key_value_metadata(
                {
                    key: value
                    for key, value in in_footer.items()
                    if key not in in_schema and key != ARROW_SCHEMA_KEY
                }
            )

    def _batches(self, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Bounded pieces of one row group each, in the order of the file."""
        for number in range(self._file.num_row_groups):
            group = self._file.metadata.row_group(number)
            row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
            size = max(1, min(BATCH_ROWS, BATCH_BYTES // row_bytes))
            pieces = self._file.iter_batches(size, row_groups=[number], columns=columns)
            while True:
                with self._readable():
                    batch = next(pieces, None)
                if batch is None:
                    break
                yield batch

    @contextmanager
    def _readable(self, head: bytes = b"PAR1") -> Iterator[None]:
        """What goes wrong in here is the file's fault."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise not_parquet(self.name, head, error) from None


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return batch if batch.schema == schema else batch.cast(schema)
