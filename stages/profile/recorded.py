"""What does a file of recorded responses say?

In: a Parquet, a JSONL, or a directory of them (a trainer's log, in the order of its steps). Out:
one frame, a row a response, whatever the layout was (`columns.py`).
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from stages.profile.columns import Format, Layout, detect_layout, find_columns
from stages.profile.values import (
    finish_reasons,
    flags,
    names,
    numbers,
    refuse,
    response_text,
)
from stages.tables.errors import AspError, first_few, log
from stages.tables.io import STDIO, read_bytes
from stages.tables.prompts import canonical_text, parse_records
from stages.tables.provenance import Provenance

UNNAMED_MODEL = "unknown"  # the model of responses whose file does not say
RECORDED = pl.Schema(
    {
        "file": pl.Int64,  # number of the file in the order read
        "row": pl.Int64,  # of that file, from 0
        "text": pl.String,  # canonical text of the prompt; null where there is none
        "id": pl.String,  # value of the id column
        "step": pl.Int64,  # trainer's step that logged it, from 1
        "sample_index": pl.Int64,
        "prompt_tokens": pl.Int64,
        "response_tokens": pl.Int64,  # null: `response` has to be counted
        "response": pl.String,  # what the model wrote; kept only where it has to be counted
        "finish_reason": pl.String,
        "capped": pl.Boolean,
        "max_response_tokens": pl.Int64,
        "temperature": pl.Float64,
        "policy_version": pl.Int64,
        "latency_s": pl.Float64,
        "ttft_s": pl.Float64,
        "concurrency": pl.Int64,
        "domain": pl.String,
        "advantage": pl.Float64,
    }
)


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

    frame: pl.DataFrame  # RECORDED, in the order of the files and their rows
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
    layout: Layout | None = None if selection.format == "auto" else selection.format
    parts, models, digests = [], set(), []
    num_rows, provenance = 0, None
    for number, file in enumerate(_files(path)):
        name, data = read_bytes(file)
        if not data and file != path:
            log.warning("%s: is empty, as a log is that was cut off; skipped", name)
            continue
        digests.append(hashlib.sha256(data).hexdigest())
        provenance = Provenance.read(data) if data.startswith(b"PAR1") else None
        table = parse_records(name, data)
        layout = layout or detect_layout(table.columns)
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
        parts.append(_normal(part, columns, layout, selection.id_column, name))
    if layout is None or not num_rows:
        raise AspError(f"{path}: holds no recorded responses: it has zero rows")
    frame, num_relogged = pl.concat(parts), 0
    if layout == "trl":
        frame, num_relogged = without_relogged(frame)
    if layout == "verl":
        # Decoding without special tokens leaves white space of the template around the prompt.
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


def without_relogged(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Drop the steps that hold the very rows of the step before; return how many rows that were.

    TRL keeps a generation batch in its log until the next one replaces it: with several optimiser
    steps per generation each of their files holds the same responses again.
    """
    kept: list[pl.DataFrame] = []
    content: pl.DataFrame | None = None
    for part in frame.partition_by("step", maintain_order=True):
        last, content = content, part.drop("file", "row", "step", "policy_version")
        is_again = part["step"][0] is not None and last is not None and content.equals(last)
        if not is_again:
            kept.append(part)
    remaining = pl.concat(kept) if kept else frame
    return remaining, len(frame) - len(remaining)


def _files(path: str) -> list[str]:
    """The file itself, or a directory's Parquet and JSONL files by the numbers in their names."""
    if path == STDIO or not Path(path).is_dir():
        return [path]
    files = [f for f in Path(path).iterdir() if f.suffix in (".parquet", ".jsonl") and f.is_file()]
    if not files:
        raise AspError(f"{path}: the directory holds no .parquet and no .jsonl file")
    return [str(f) for f in sorted(files, key=lambda f: (_natural(f.name), f.name))]


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A sort key that puts 2.jsonl before 10.jsonl."""
    pieces = re.split(r"(\d+)", name)
    return [(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in pieces if p]


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


def _normal(
    table: pl.DataFrame,
    columns: Mapping[str, str],
    layout: Layout,
    id_column: str | None,
    name: str,
) -> pl.DataFrame:
    """A file's rows as RECORDED; absent columns are null."""
    _check_needed(table, columns, layout, id_column, name)
    rows = table.get_column("__row")
    found = {"file": table.get_column("__file"), "row": rows}
    if id_column is not None:
        found["id"] = names(table.get_column(id_column))
    for held, (target, read) in _READERS.items():
        # Text is heavy: it is read to be counted, or to see what TRL logged twice.
        if held in columns and (held != "response" or "tokens" not in columns or layout == "trl"):
            column = columns[held]
            found[target] = read(table.get_column(column), f"{name}: column {column!r}", rows)
    if "step" in found and "policy_version" not in found:
        # Step 1, the first, is answered by the weights before any update: version 0.
        found["policy_version"] = (found["step"] - 1).clip(lower_bound=0)
    empty = pl.DataFrame(schema=RECORDED).clear(len(table))
    return empty.with_columns(found[c].cast(d).alias(c) for c, d in RECORDED.items() if c in found)


def _check_needed(
    table: pl.DataFrame,
    columns: Mapping[str, str],
    layout: Layout,
    id_column: str | None,
    name: str,
) -> None:
    held = f"it has {', '.join(c for c in table.columns if not c.startswith('__'))}"
    if id_column is not None and id_column not in table.columns:
        raise AspError(f"{name}: no column {id_column!r} (--rollouts-id-column); {held}")
    if id_column is None and "prompt" not in columns:
        wanted = "input" if layout == "verl" else "prompt"
        raise AspError(
            f"{name}: no column {wanted!r} with the prompt ({layout} layout); "
            f"name it: --rollouts-prompt-column NAME; {held}"
        )
    if "tokens" not in columns and "response" not in columns:
        raise AspError(
            f"{name}: no column with the length ('response_tokens') or the text of the responses "
            f"({layout} layout); name one: --rollouts-tokens-column or --rollouts-response-column; "
            f"{held}"
        )


def _texts(values: pl.Series, where: str, rows: pl.Series) -> pl.Series:
    """Canonical texts of prompts; null where there is no prompt, which no join will find."""
    if values.dtype == pl.String:
        return values
    return pl.Series([canonical_text(prompt) for prompt in values.to_list()], dtype=pl.String)


def _responses(values: pl.Series, where: str, rows: pl.Series) -> pl.Series:
    written = pl.Series([response_text(value) for value in values.to_list()], dtype=pl.String)
    if written.has_nulls():
        met = ["null" if v is None else str(v)[:40] for v in values.filter(written.is_null())]
        refuse(written.is_null(), met, where, rows, "neither text nor a list of messages")
    return written


def _names(values: pl.Series, where: str, rows: pl.Series) -> pl.Series:
    return names(values)


def _advantages(values: pl.Series, where: str, rows: pl.Series) -> pl.Series:
    """Only compared, never stored: what is no number is as good as missing."""
    return values.cast(pl.Float64, strict=False)


_whole = partial(numbers, is_whole=True)
_READERS: dict[str, tuple[str, Callable[[pl.Series, str, pl.Series], pl.Series]]] = {
    "prompt": ("text", _texts),
    "tokens": ("response_tokens", partial(_whole, is_required=True)),
    "response": ("response", _responses),
    "sample_index": ("sample_index", _whole),
    "prompt_tokens": ("prompt_tokens", _whole),
    "finish_reason": ("finish_reason", finish_reasons),
    "capped": ("capped", flags),
    "max_tokens": ("max_response_tokens", partial(_whole, least=1)),
    "temperature": ("temperature", numbers),
    "policy_version": ("policy_version", _whole),
    "step": ("step", _whole),
    "latency": ("latency_s", numbers),
    "ttft": ("ttft_s", numbers),
    "concurrency": ("concurrency", partial(_whole, least=1)),
    "domain": ("domain", _names),
    "advantage": ("advantage", _advantages),
}
"""For each field, the column of RECORDED it becomes, and how it is read."""
