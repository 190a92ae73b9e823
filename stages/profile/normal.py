"""What do the columns of a log say? The rows of a file in one form, whatever its layout.

In: a table of a layout and the column of each field (`columns.py`). Out: RECORDED, a row a
response, every value checked.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import polars as pl

from stages.profile.logs.layout import Layout
from stages.profile.logs.trl import TRL
from stages.profile.values import finish_reasons, flags, names, numbers, refuse, response_text
from stages.tables.errors import AspError
from stages.tables.prompts import canonical_text

_COLUMNS: dict[str, Any] = {
    "file": pl.Int64,  # number of the file in the order read
    "row": pl.Int64,  # of that file, from 0
    "text": pl.String,  # canonical text of the prompt; null where there is none
    "prompt_ids": pl.List(pl.Int64),  # token ids of the prompt, where its text is not told
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
RECORDED = pl.Schema(_COLUMNS)


def normal(
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
        if held in columns and (held != "response" or "tokens" not in columns or layout == TRL):
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
    if id_column is None and "prompt" not in columns and "prompt_ids" not in columns:
        raise AspError(
            f"{name}: no column {layout.columns['prompt'][0]!r} with the prompt "
            f"({layout.name} layout); "
            f"name it: --rollouts-prompt-column NAME; {held}"
        )
    if "tokens" not in columns and "response" not in columns:
        raise AspError(
            f"{name}: no column with the length ('response_tokens') or the text of the responses "
            f"({layout.name} layout); name one: --rollouts-tokens-column or "
            f"--rollouts-response-column; {held}"
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


def _ids(values: pl.Series, where: str, rows: pl.Series) -> pl.Series:
    return values  # of a reader's making


_whole = partial(numbers, is_whole=True)
_READERS: dict[str, tuple[str, Callable[[pl.Series, str, pl.Series], pl.Series]]] = {
    "prompt": ("text", _texts),
    "prompt_ids": ("prompt_ids", _ids),
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
