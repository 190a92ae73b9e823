"""The reader and the writer of the toolchain's Parquet tables; `stream.py` is their way in batches.

A read takes any file that obeys the schema, whoever wrote it: numbers are cast where nothing is
lost, optional columns are filled with nulls, derived ones are computed by `complete`, all else is
refused in one line. A write validates, stamps the footer key `asp` (`provenance.py`) and appears
under its name whole or not at all. `-` is standard input or output.
"""

import hashlib
import io
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import dataframely as dy
import polars as pl

from stages.tables.errors import AspError, shorten
from stages.tables.provenance import FOOTER_KEY, Provenance
from stages.tables.schemas import is_marked, table_name
from stages.tables.validation import cast_losslessly, narrowed, validate

STDIO = "-"
ROW_GROUP_ROWS = 2**18  # said, since what polars chooses depends on how the rows came
Complete = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True)
class Table:
    """A validated frame and where it came from."""

    frame: pl.DataFrame
    name: str  # for messages: the path, or "standard input"
    sha256: str  # of the bytes read
    provenance: Provenance | None  # None where the file carries no readable footer


def read_bytes(path: str) -> tuple[str, bytes]:
    """Read a file, or standard input for `-`; return its name for messages and its bytes."""
    name = name_of(path)
    with readable(name):
        return name, standard_input().read() if path == STDIO else Path(path).read_bytes()


def name_of(path: str) -> str:
    """An input's name for messages."""
    return "standard input" if path == STDIO else path


@contextmanager
def readable(name: str) -> Iterator[None]:
    """A file that the block cannot open or read is told in one line."""
    try:
        yield
    except IsADirectoryError:
        raise AspError(f"{name}: is a directory; a file is needed here") from None
    except OSError as error:
        raise AspError(f"{shorten(name)}: cannot be read: {error.strerror}") from None
    except ValueError:  # from a file that names another
        raise AspError(f"{name!r}: no path, which holds no null character; name a file") from None


def standard_input() -> BinaryIO:
    """Standard input, as bytes."""
    if sys.stdin is None:
        raise AspError("standard input: is closed, but `-` reads there; give a file")
    return sys.stdin.buffer


@contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Standard output for the block to write to; what goes wrong there is one line."""
    if sys.stdout is None:
        raise AspError("standard output: is closed, but `-` writes there; give --output a file")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # whoever read it has gone, on purpose as a rule
    except OSError as error:
        raise AspError(f"standard output: cannot be written: {error.strerror}") from None


def parse_parquet(name: str, data: bytes, columns: list[str] | None = None) -> pl.DataFrame:
    """Parse the bytes of a Parquet file; `name` is for the message when they are none."""
    with _parquet_errors(name, data):
        return pl.read_parquet(io.BytesIO(data), columns=columns)


@contextmanager
def _parquet_errors(name: str, data: bytes) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise not_parquet(name, data[:4], error) from None


def not_parquet(name: str, head: bytes, error: Exception) -> AspError:
    """What to say of a file that did not parse as Parquet, told by its first four bytes."""
    if not head:
        reason = "it is empty"
    elif head != b"PAR1":
        reason = "it does not start as one (a CSV or JSON file under this name?)"
    else:
        reason = f"it is damaged or cut short, or not to be read here ({str(error)[:120]})"
    return AspError(f"{name}: not a Parquet file: {reason}; write it again")


def read_table(path: str, schema: type[dy.Schema], complete: Complete | None = None) -> Table:
    """Read and validate a table.

    Args:
        path: A Parquet file, or `-` for standard input.
        schema: The table's class in `schemas.py`.
        complete: Computes the derived columns that are absent; gets the frame with every
            other column in place and of the right type.

    Raises:
        AspError: The file cannot be read, or breaks the schema.
    """
    name, data = read_bytes(path)
    frame = conform(parse_parquet(name, data), schema, name, complete)
    return Table(frame, name, hashlib.sha256(data).hexdigest(), Provenance.read(data))


def conform(
    frame: pl.DataFrame, schema: type[dy.Schema], name: str, complete: Complete | None = None
) -> pl.DataFrame:
    """Bring a frame to the schema's columns and types, extra columns last, and validate it."""
    given = set(frame.columns)
    columns = schema.columns()
    missing = [
        column
        for column in columns
        if column not in given
        and not is_marked(schema, column, "optional")
        and not (complete and is_marked(schema, column, "derived"))
    ]
    if missing:
        raise AspError(
            f"{name}: not a {table_name(schema)} table: column {missing[0]!r} is missing; "
            f"it has {', '.join(frame.columns) or 'no columns'}"
        )
    if frame.is_empty():
        raise AspError(f"{name}: the {table_name(schema)} table has no rows")
    absent = [c for c in columns if c not in given and is_marked(schema, c, "optional")]
    frame = frame.with_columns(pl.lit(None).alias(c) for c in absent)
    frame = cast_losslessly(frame, schema, name)
    if complete:
        validate(frame, narrowed(schema, frame.columns), name)
        frame = cast_losslessly(complete(frame), schema, name)
    validate(frame, schema, name)
    return frame.select(*columns, *(c for c in frame.columns if c not in columns))


def write_table(
    frame: pl.DataFrame, schema: type[dy.Schema], path: str, provenance: Provenance, force: bool
) -> None:
    """Validate a frame and write it with its provenance: whole or not at all.

    Raises:
        AspError: The output exists and `force` is not set, or cannot be written.
    """
    write_bytes(to_parquet(frame, schema, provenance), path, force)


def write_bytes(data: bytes | memoryview, path: str, force: bool) -> None:
    """Write a file, or to standard output for `-`: whole or not at all.

    Raises:
        AspError: The output exists and `force` is not set, or cannot be written.
    """
    if path == STDIO:
        with standard_output() as stream:
            stream.write(data)
        return
    with new_file(path, force) as temporary:
        temporary.write_bytes(data)


def to_parquet(frame: pl.DataFrame, schema: type[dy.Schema], provenance: Provenance) -> memoryview:
    """Validate a frame and render it as Parquet with its provenance."""
    frame = conform(frame, schema, f"the {table_name(schema)} table to write")
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer, row_group_size=ROW_GROUP_ROWS, metadata={FOOTER_KEY: provenance.to_json()}
    )
    return buffer.getbuffer()


def check_output(path: str, force: bool) -> None:
    """Fail early, before long work, where a file could not be written at the end."""
    if path != STDIO:
        with _cannot_write(path):
            if Path(path).is_dir() or path.endswith(os.sep):
                raise AspError(f"{path}: is a directory; the output here is a file")
            if Path(path).exists() and not Path(path).is_file():
                raise AspError(
                    f"{path}: is a device or a pipe, which cannot be replaced by a file; "
                    "give `-` for standard output, or another --output"
                )
            _check_place(path, force)


def check_directory(path: str, force: bool, marker: str) -> None:
    """As `check_output`, for a directory that holds the file `marker`."""
    target = Path(path)
    with _cannot_write(path):
        if target.exists() and not target.is_dir():
            raise AspError(f"{path}: is a file; the output here is a directory")
        _check_place(path, force)
        if target.is_dir() and any(target.iterdir()) and not (target / marker).is_file():
            raise AspError(
                f"{path}: holds files but no {marker}, so the toolchain did not write it and will "
                "not replace it; give another --output"
            )


def _check_place(path: str, force: bool) -> None:
    target = Path(path)
    if target.exists() and not force:
        raise AspError(f"{path}: exists already; give --force to replace it, or another --output")
    parent = _place(path).parent
    if not parent.is_dir():
        raise AspError(f"{path}: the folder {parent} does not exist; create it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise AspError(f"{path}: the folder {parent} is not writable")


@contextmanager
def new_file(path: str, force: bool) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it there if the block succeeds."""
    check_output(path, force)
    temporary = _temporary_path(path)
    with _cannot_write(path):
        try:
            yield temporary
            _flush_to_disk(temporary)
            os.replace(temporary, _place(path))
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def new_directory(path: str, force: bool, marker: str) -> Iterator[Path]:
    """Yield a temporary directory beside `path`; put it in its place if the block succeeds.

    `marker` is a file that every such directory holds: --force replaces a whole directory, so it
    must be one that the toolchain wrote.
    """
    check_directory(path, force, marker)
    target = _place(path)
    temporary, replaced = _temporary_path(path), _temporary_path(path, "old")
    with _cannot_write(path):
        try:
            temporary.mkdir()
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    _flush_to_disk(file)
            if target.exists():
                os.replace(target, replaced)
            os.replace(temporary, target)
        finally:
            # Also after Ctrl-C: between the two renames the old directory is all there is.
            if replaced.exists() and not target.exists():
                os.replace(replaced, target)
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.rmtree(replaced, ignore_errors=True)


def hash_directory(path: Path) -> str:
    """sha256 over the names and contents of a directory's files, in the order of their names."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            digest.update(file.relative_to(path).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _place(path: str) -> Path:
    """Where an output lies: what a symbolic link points to is written, the link stays."""
    return Path(path).resolve() if Path(path).is_symlink() else Path(path).absolute()


def _temporary_path(path: str, kind: str = "new") -> Path:
    """A name that no other run has: process ids come again in containers, after a kill too.

    Of the target's name only the start, since file systems allow 255 bytes.
    """
    target = _place(path)
    return target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.{kind}.tmp")


def _flush_to_disk(file: Path) -> None:
    """Make the bytes durable before the rename makes them visible."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _cannot_write(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AspError(
            f"{path}: cannot be written: {error.strerror or error}; nothing was left there"
        ) from None
