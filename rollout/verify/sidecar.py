"""What does the `asp.json` of a directory say of its rows?

It has lain beside a training since, so nothing in it is trusted before it is read here: a value
that `asp emit` does not write is refused by its key.
"""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from stages.emit.sidecar import SIDECAR_FILE, SIDECAR_VERSION
from stages.tables.errors import AspError, shorten

_SPAN = ("epoch", "minibatch_id", "first_row", "num_rows")
_LARGEST = 2**53  # as in every table


@dataclass(frozen=True)
class Sidecar:
    """How the data file is cut into train batches and minibatches."""

    path: Path
    data_file: str
    prompt_column: str
    num_rows: int
    train_batch_size: int
    num_train_batches: int
    minibatches: pl.DataFrame  # epoch, minibatch_id, first_row, num_rows; in the order of rows
    row_prompt_ids: pl.Series  # of each row, its row in the user's prompt file
    schedule_sha256: str
    trainer: str
    settings: dict[str, Any]


def read_sidecar(folder: Path) -> Sidecar:
    """Read the sidecar of a directory that `asp emit --for` wrote.

    Raises:
        AspError: There is none, it is of another version, or a value is none that emit writes.
    """
    path = folder / SIDECAR_FILE
    keys = _load(path)

    def get(key: str, kind: type[Any], least: int = 0) -> Any:
        if key not in keys:
            raise AspError(f"{path}: lacks {key}; run `asp emit` again")
        value: Any = keys[key]
        if type(value) is not kind or (kind is int and not least <= int(value) <= _LARGEST):
            raise _damaged(path, key, value)
        return value

    num_rows = get("num_rows", int)
    size, num_batches = get("train_batch_size", int, least=1), get("num_train_batches", int)
    if size * num_batches > num_rows:
        raise AspError(
            f"{path}: {num_batches} train batches of {size} do not fit in {num_rows} rows; run "
            "`asp emit` again"
        )
    spans = get("minibatches", list)
    if (odd := _odd_span(spans, num_rows)) is not None:
        raise _damaged(path, f"minibatches[{odd}]", spans[odd])
    ids = get("row_prompt_ids", list)
    if len(ids) != num_rows or not all(type(i) is int and 0 <= i <= _LARGEST for i in ids):
        raise AspError(
            f"{path}: row_prompt_ids are not {num_rows} row numbers; run `asp emit` again"
        )
    schedule = get("inputs", dict).get("schedule")
    if not isinstance(schedule, str):
        raise _damaged(path, "inputs.schedule", schedule)
    return Sidecar(
        path=path,
        data_file=get("data_file", str),
        prompt_column=get("prompt_column", str),
        num_rows=num_rows,
        train_batch_size=size,
        num_train_batches=num_batches,
        minibatches=pl.DataFrame(
            [[span[key] for span in spans] for key in _SPAN],
            schema=dict.fromkeys(_SPAN, pl.Int64),
            orient="col",
        ),
        row_prompt_ids=pl.Series(ids, dtype=pl.Int64),
        schedule_sha256=schedule,
        trainer=get("trainer", str),
        settings=get("settings", dict),
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        keys = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise AspError(
            f"{path.parent}: is a directory without {SIDECAR_FILE}; give one that "
            "`asp emit --for TRAINER` wrote, or a schedule file"
        ) from None
    except OSError as error:
        raise AspError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise AspError(f"{path}: is no JSON; run `asp emit` again") from None
    if not isinstance(keys, dict) or keys.get("version") != SIDECAR_VERSION:
        raise AspError(
            f"{path}: is not of version {SIDECAR_VERSION}, which this asp reads; run `asp emit` "
            "again"
        )
    return keys


def _odd_span(spans: list[Any], num_rows: int) -> int | None:
    """The first that is no span of rows, or lies over the one before it."""
    for number, span in enumerate(spans):
        if not isinstance(span, dict) or not all(
            type(span.get(key)) is int and 0 <= span[key] <= _LARGEST for key in _SPAN
        ):
            return number
        if span["num_rows"] == 0 or span["first_row"] + span["num_rows"] > num_rows:
            return number
    for number, (before, span) in enumerate(pairwise(spans), start=1):
        if span["first_row"] < before["first_row"] + before["num_rows"]:
            return number
    return None


def _damaged(path: Path, key: str, value: object) -> AspError:
    met = shorten(json.dumps(value, ensure_ascii=False), 60)
    return AspError(f"{path}: {key} is {met}, which `asp emit` does not write; run it again")
