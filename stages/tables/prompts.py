"""The user's prompts: any Parquet or JSONL file, the prompt as text or as a list of messages.

Canonical text is what profile, predict and every join work on; the chat template is applied only
when generating. The user's file itself is never changed.
"""

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from stages.tables.errors import AspError, first_few, log
from stages.tables.io import conform, parquet_columns, parse_parquet, read_bytes
from stages.tables.schemas import Prompts

DEFAULT_PROMPT_COLUMN = "prompt"
DEFAULT_DOMAIN_COLUMN = "domain"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors begin UTF-8 with it


@dataclass(frozen=True)
class PromptFile:
    """A prompt file in canonical form, beside the prompts as the user wrote them."""

    frame: pl.DataFrame  # schema Prompts, in the order of the file
    raw: list[Any]  # text or list of messages, a prompt each, for the chat template
    name: str
    sha256: str


def canonical_text(prompt: object) -> str | None:
    """The text of a prompt: itself, or `role: content` lines of its messages; None if neither."""
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Sequence):
        return None
    lines = []
    for message in prompt:
        if not isinstance(message, dict) or "content" not in message:
            return None
        lines.append(f"{message.get('role', 'user')}: {_content_text(message['content'])}")
    return "\n".join(lines)


def _content_text(content: object) -> str:
    """Content is text; parts of a multimodal message are kept as compact JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    return json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)


def prompt_hash(text: str) -> str:
    """16 hexadecimal digits of sha256 of the canonical text.

    64 bits: among a million different prompts, two meet with a chance of 3e-8.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_prompts(
    path: str, column: str = DEFAULT_PROMPT_COLUMN, domain_column: str | None = None
) -> PromptFile:
    """Read a prompt file.

    Args:
        path: The file; `-` is standard input.
        column: With the prompts.
        domain_column: With their domains; None: DEFAULT_DOMAIN_COLUMN where there is such a one.

    Raises:
        AspError: No rows, no such column, a prompt that is null, empty or of another type, a
            domain that is a list or a structure.
    """
    name, data = read_bytes(path)
    values = _read_columns(name, data, column, domain_column)
    raw = values[column]
    if not raw:
        raise AspError(f"{name}: holds no prompts: it has zero rows")
    texts = [canonical_text(prompt) for prompt in raw]
    unusable = [row for row, text in enumerate(texts) if text is None]
    _refuse(name, column, "neither text nor a list of {role, content}", unusable)
    halves = [row for row, text in enumerate(texts) if text and not _is_unicode(text)]
    _refuse(name, column, "no text: they hold half of a surrogate pair", halves)
    empty = [row for row, text in enumerate(texts) if not (text or "").strip()]
    _refuse(name, column, "empty", empty)
    canonical = pl.DataFrame(
        {
            "prompt_id": pl.int_range(len(texts), dtype=pl.Int64, eager=True),
            "prompt_hash": [prompt_hash(text) for text in texts if text is not None],
            "prompt": texts,
            "domain": _domains(name, values, domain_column),
        },
        schema_overrides={"domain": pl.String},
    )
    num_duplicates = len(canonical) - canonical.get_column("prompt_hash").n_unique()
    if num_duplicates:
        log.warning(
            "%s: %d of %d prompts repeat an earlier one; they are kept and share observations",
            name, num_duplicates, len(canonical),
        )  # fmt: skip
    return PromptFile(
        conform(canonical, Prompts, name), raw, name, hashlib.sha256(data).hexdigest()
    )


def parse_records(name: str, data: bytes) -> pl.DataFrame:
    """Parse Parquet or JSON lines, told apart by the first bytes.

    JSON rows become one column a key; values of a column that differ in type stay Python objects.
    """
    if not is_json_lines(data):
        return parse_parquet(name, data)
    records = [_with_unicode(record) for record in parse_json_lines(name, data)]
    columns = list(dict.fromkeys(key for record in records for key in record))
    return pl.DataFrame([_series(c, [record.get(c) for record in records]) for c in columns])


def is_json_lines(data: bytes) -> bool:
    """Whether the bytes start as a JSON object rather than as Parquet."""
    return data[:4] != b"PAR1" and data[:64].removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{")


def parse_json_lines(name: str, data: bytes) -> list[dict[str, Any]]:
    """The objects of a JSON lines file; blank lines are passed over."""
    lines = enumerate(io.BytesIO(data), start=1)
    return [parse_json_line(name, number, line) for number, line in lines if line.strip()]


def parse_json_line(name: str, number: int, line: bytes) -> dict[str, Any]:
    """The object that line `number` (from 1) of file `name` holds."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise AspError(f"{name}: line {number} is not JSON: {error}; correct it") from None
    if not isinstance(record, dict):
        raise AspError(f"{name}: line {number} is not a JSON object: {str(record)[:40]}")
    return record


def _is_unicode(text: str) -> bool:
    """Whether text is free of half surrogate pairs, which JSON can escape but UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_unicode(record: dict[str, Any]) -> dict[str, Any]:
    """The record with `?` for half surrogate pairs: responses that were cut may end in one."""
    text = json.dumps(record, ensure_ascii=False)
    if _is_unicode(text):
        return record
    return dict(json.loads(text.encode("utf-8", "replace")))


def _read_columns(
    name: str, data: bytes, column: str, domain_column: str | None
) -> dict[str, list[Any]]:
    """The values of the columns of prompts and domains alone: others may hold images.

    JSON values are taken as they are. A table would add the keys of other rows as nulls, and a
    prompt's text would depend on its neighbours.
    """
    if is_json_lines(data):
        records = parse_json_lines(name, data)
        columns = list(dict.fromkeys(key for record in records for key in record))
    else:
        records, columns = None, parquet_columns(name, data)
    wanted = {column: "--prompt-column", domain_column or DEFAULT_DOMAIN_COLUMN: "--domain-column"}
    for missing in (c for c in wanted if c not in columns):
        if missing == column or domain_column is not None:
            raise AspError(
                f"{name}: no column {missing!r} ({wanted[missing]}); "
                f"it has {', '.join(columns) or 'no columns'}"
            )
    held = [c for c in wanted if c in columns]
    if records is not None:
        return {c: [record.get(c) for record in records] for c in held}
    return parse_parquet(name, data, held).to_dict(as_series=False)


def _domains(
    name: str, values: dict[str, list[Any]], domain_column: str | None
) -> list[str | None]:
    """The domains as text; null where a column of the default name holds something else."""
    column = domain_column or DEFAULT_DOMAIN_COLUMN
    found = values.get(column)
    if found is None:
        return [None] * len(next(iter(values.values())))
    nested = [row for row, value in enumerate(found) if isinstance(value, list | dict)]
    if nested and domain_column is None:
        return [None] * len(found)
    if nested:
        raise AspError(
            f"{name}: column {column!r} (--domain-column): {len(nested)} values are lists or "
            f"structures, first in row {first_few(nested)} (from 0); name a column of text"
        )
    return [None if value is None else str(value) for value in found]


def _series(name: str, values: list[Any]) -> pl.Series:
    """Values of mixed type (an answer that is now text, now a number) stay as they are."""
    try:
        return pl.Series(name, values, strict=True)
    except (TypeError, pl.exceptions.PolarsError, OverflowError):
        return pl.Series(name, values, dtype=pl.Object)


def _refuse(name: str, column: str, what: str, rows: list[int]) -> None:
    if rows:
        raise AspError(
            f"{name}: column {column!r}: {len(rows)} prompts are {what}, first in row "
            f"{first_few(rows)} (from 0); remove or mend them"
        )
