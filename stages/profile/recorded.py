"""What does a file of recorded responses say?

In: a file, or a directory of them (a trainer's log, in the order of its steps). Out: one frame, a
row a response, whatever the layout was (`logs/`).
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from stages.profile.columns import find_columns
from stages.profile.logs import Format
from stages.profile.logs.known import LAYOUTS, detect_layout
from stages.profile.logs.layout import Layout
from stages.profile.logs.plain import PLAIN
from stages.profile.logs.trl import TRL, without_relogged
from stages.profile.normal import normal
from stages.profile.values import names
from stages.tables.errors import AspError, first_few, log
from stages.tables.io import STDIO, read_bytes
from stages.tables.prompts import parse_records
from stages.tables.provenance import Provenance

UNNAMED_MODEL = "unknown"  # the model of responses whose file does not say
_PICKLES = (b"PK\x03\x04", b"\x80")  # how files of torch and pickles begin
_NAMED = f"--from {'|'.join(LAYOUTS)}"


@dataclass(frozen=True)
class Selection:
    """Which columns to read, and which model's responses."""

    format: Format = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)  # field: column, where named
    id_column: str | None = None
    model: str | None = None  # None: the only one there is


@dataclass(frozen=True)
class Recording:
    """Recorded responses of one model."""

    frame: pl.DataFrame  # normal.RECORDED, in the order of the files and their rows
    name: str  # for messages
    layout: Layout
    model: str
    num_rows: int  # of all models
    num_relogged: int  # rows dropped since TRL had logged them before
    sha256: str
    provenance: Provenance | None


def read_recording(path: str, selection: Selection) -> Recording:
    """Read recorded responses; `-` is standard input.

    Raises:
        AspError: Unreadable, a needed column is missing or holds what it should not, several
            models and none chosen.
    """
    layout = None if selection.format == "auto" else LAYOUTS[selection.format]
    parts, models, digests = [], set(), []
    num_rows, provenance = 0, None
    for number, file in enumerate(_files(path, layout)):
        name, data = read_bytes(file)
        if (not data or data.isspace()) and file != path:
            log.warning("%s: is empty, as a log is that was cut off; skipped", name)
            continue
        digests.append(hashlib.sha256(data).hexdigest())
        provenance = Provenance.read(data) if data.startswith(b"PAR1") else None
        layout, table = _read(name, data, layout)
        columns = find_columns(table.columns, layout, selection.columns, name)
        part = table.with_columns(
            pl.lit(number, pl.Int64).alias("__file"),
            pl.int_range(pl.len(), dtype=pl.Int64).alias("__row"),
            _models(table, columns).alias("__model"),
        )
        num_rows += len(part)
        models |= set(part.get_column("__model"))
        if selection.model is not None and "model" in columns:
            part = part.filter(pl.col("__model") == selection.model)
        parts.append(normal(part, columns, layout, selection.id_column, name))
    if layout is None or not num_rows:
        raise AspError(f"{path}: holds no recorded responses: it has zero rows")
    frame, num_relogged = pl.concat(parts), 0
    if layout == TRL:
        frame, num_relogged = without_relogged(frame)
    if layout.is_templated:
        # A template leaves white space around the prompt, of which decoding may drop some.
        frame = frame.with_columns(pl.col("text").str.strip_chars())
    return Recording(
        frame=frame,
        name="standard input" if path == STDIO else path,
        layout=layout,
        model=_choose_model(path, models, selection.model),
        num_rows=num_rows,
        num_relogged=num_relogged,
        sha256=_joint_digest(digests),
        provenance=provenance if len(digests) == 1 else None,
    )


def _read(name: str, data: bytes, layout: Layout | None) -> tuple[Layout, pl.DataFrame]:
    """The rows of a file, and its layout, which is told by its columns where it is not named."""
    if layout is not None:
        return layout, layout.read(name, data)
    if data.startswith(_PICKLES):
        raise AspError(f"{name}: is a pickle, not Parquet or JSON lines; say whose it is: {_NAMED}")
    table = parse_records(name, data)
    layout = detect_layout(table.columns)
    return layout, table if layout.read is parse_records else layout.read(name, data)


def _files(path: str, layout: Layout | None) -> list[str]:
    """The file itself, or a directory's files of the layout, by the numbers in their names."""
    if path == STDIO or not Path(path).is_dir():
        return [path]
    wanted = layout or PLAIN
    inside = (f.relative_to(path) for f in Path(path).rglob("*") if f.is_file())
    files = sorted((_natural(str(f)), str(f)) for f in inside if wanted.holds(f))
    if not files and layout is None:
        raise AspError(
            f"{path}: the directory holds no .parquet and no .jsonl file; "
            f"for the log of a trainer that writes others: {_NAMED}"
        )
    if not files:
        raise AspError(
            f"{path}: the directory holds no file of a log of {wanted.name}, "
            f"whose paths in it are like {wanted.files}"
        )
    return [str(Path(path) / f) for _, f in files]


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A sort key that puts 2.jsonl before 10.jsonl."""
    pieces = re.split(r"(\d+)", name)
    return [(p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in pieces if p]


def _joint_digest(digests: list[str]) -> str:
    """A file's own hash; of several, the hash of their hashes in the order read."""
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )


def _models(table: pl.DataFrame, columns: Mapping[str, str]) -> pl.Series:
    if "model" not in columns:
        return pl.repeat(UNNAMED_MODEL, len(table), dtype=pl.String, eager=True)
    return names(table.get_column(columns["model"])).fill_null(UNNAMED_MODEL)


def _choose_model(path: str, models: set[str], wanted: str | None) -> str:
    if models == {UNNAMED_MODEL}:
        return wanted or UNNAMED_MODEL
    if wanted is None and len(models) > 1:
        raise AspError(
            f"{path}: holds responses of {len(models)} models: "
            f"{first_few(sorted(models), 20)}; choose one: --rollouts-model NAME"
        )
    if wanted is not None and wanted not in models:
        raise AspError(
            f"{path}: no response of --rollouts-model {wanted!r}; "
            f"it has those of {first_few(sorted(models), 20)}"
        )
    return wanted or next(iter(models))
