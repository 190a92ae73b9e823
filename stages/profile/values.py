"""Is what stands in a column of recorded responses what it should be?

Tools write missing numbers as null or as NaN; both are taken as missing here. Every refusal names
the file, the column, the first rows as they stand in the file, and what is met there.
"""

import json
from collections.abc import Sequence

import polars as pl

from stages.profile.engine import FinishReason
from stages.tables.errors import AspError, first_few

LARGEST = 2**53  # floats hold every whole number up to it
FINISH_REASONS: dict[FinishReason, tuple[str, ...]] = {
    "stop": ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls"),
    "length": ("length", "max_tokens", "max_length", "model_length"),
    "abort": ("abort", "aborted", "cancelled", "canceled", "error", "content_filter"),
}
"""What engines and endpoints call the three ends that the profile tells apart."""
_REASON = {word: reason for reason, words in FINISH_REASONS.items() for word in words}


def reason_of(word: str) -> FinishReason | None:
    """Which of the three ends a word names; None where it names none."""
    return _REASON.get(word.strip().lower())


def numbers(
    values: pl.Series,
    where: str,
    rows: pl.Series,
    least: float = 0,
    is_whole: bool = False,
    is_required: bool = False,
) -> pl.Series:
    """The values as Float64, or Int64 where `is_whole`; missing ones as null.

    Raises:
        AspError: A value is no number, below `least`, infinite, a fraction where `is_whole`, or
            missing where `is_required`.
    """
    dtype = pl.Int64 if is_whole else pl.Float64
    if values.dtype != pl.Null and not values.dtype.is_numeric():
        raise AspError(f"{where} holds {values.dtype}, but numbers are needed; cast it")
    given = values.cast(pl.Float64)
    known = given.fill_nan(None)
    is_fine = (known >= least) & known.is_finite()
    if is_whole:
        is_fine &= (known == known.floor()) & (known <= LARGEST)
    is_fine = is_fine.fill_null(not is_required)
    if not is_fine.all():
        what = f"numbers of at least {least:g}"
        if is_whole:
            what = f"whole numbers from {least:g} to 2^53"
        refuse(~is_fine, [_shown(v) for v in values.filter(~is_fine)], where, rows, f"not {what}")
    return known.cast(dtype)


def flags(values: pl.Series, where: str, rows: pl.Series) -> pl.Series:
    """The values as Boolean: true and false, or 1 and 0; missing ones as null."""
    if values.dtype in (pl.Boolean, pl.Null):
        return values.cast(pl.Boolean)
    if values.dtype.is_numeric():
        known = values.cast(pl.Float64).fill_nan(None)
        if known.is_in([0.0, 1.0]).fill_null(True).all():
            return known.cast(pl.Boolean)
    raise AspError(f"{where} holds {values.dtype}, but true and false (or 1 and 0) are needed")


def finish_reasons(values: pl.Series, where: str, rows: pl.Series) -> pl.Series:
    """The values as stop, length or abort; missing ones as null."""
    if values.dtype == pl.Null:
        return values.cast(pl.String)
    if values.dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise AspError(f"{where} holds {values.dtype}, but stop, length or abort is needed")
    words = values.cast(pl.String).str.strip_chars().str.to_lowercase()
    is_known = words.is_in(list(_REASON)).fill_null(True)
    if not is_known.all():
        refuse(
            ~is_known, values.filter(~is_known).to_list(), where, rows,
            "none of " + ", ".join(FINISH_REASONS),
        )  # fmt: skip
    return words.replace_strict(_REASON, return_dtype=pl.String)


def names(values: pl.Series) -> pl.Series:
    """The values as text, whatever they were: `3`, 3 and 3.0 name the same; missing ones null."""
    if values.dtype.is_float():
        values = values.fill_nan(None)
        whole = values.cast(pl.Int64, strict=False)
        if (whole.cast(values.dtype) == values).fill_null(True).all():
            values = whole
    if values.dtype.is_nested() or values.dtype in (pl.Object, pl.Binary, pl.Duration):
        listed = values.to_list()
        return pl.Series(
            values.name,
            [None if v is None else v if isinstance(v, str) else _as_json(v) for v in listed],
            dtype=pl.String,
        )
    return values.cast(pl.String)


def response_text(response: object) -> str | None:
    """What the model wrote: text as it is, of messages those of the assistant; None if neither.

    The turns of tools and users in between are not generated and count nothing.
    """
    if isinstance(response, str):
        return response
    if not isinstance(response, Sequence) or not all(isinstance(m, dict) for m in response):
        return None
    written = []
    for message in response:
        if message.get("role", "assistant") == "assistant":
            parts = [message.get(k) for k in ("reasoning_content", "content", "tool_calls")]
            written += [p if isinstance(p, str) else _as_json(p) for p in parts if p]
    return "".join(written)


def refuse(
    is_bad: pl.Series, met: Sequence[object], where: str, rows: pl.Series, what: str
) -> None:
    """Raise the one line: where, how many, what they are, the first rows and what is met there."""
    raise AspError(
        f"{where}: {is_bad.sum()} of {len(rows)} values are {what}, first in row "
        f"{first_few(rows.filter(is_bad))} (from 0): {first_few(met)}; mend or remove those rows"
    )


def _shown(value: object) -> str:
    if value is None:
        return "null"
    return "NaN" if value != value else str(value)


def _as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
