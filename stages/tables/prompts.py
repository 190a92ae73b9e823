"""What is a prompt's text? A prompt is text or a list of messages, in any Parquet or JSONL file.

Canonical text is what profile, predict and every join work on; the chat template is applied only
when generating. The user's file itself is never changed; `prompt_stream.py` reads it.
"""

import hashlib
import io
import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from stages.tables.errors import AspError
from stages.tables.io import parse_parquet

DEFAULT_PROMPT_COLUMN = "prompt"
DEFAULT_DOMAIN_COLUMN = "domain"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors begin UTF-8 with it


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


def normalised_text(text: str) -> str:
    """The text in one case, with single spaces: prompts equal in it are near-duplicates."""
    return " ".join(text.casefold().split())


def parse_records(name: str, data: bytes) -> pl.DataFrame:
    """Parse Parquet or JSON lines, told apart by the first bytes.

    JSON rows become one column a key; values of a column that differ in type stay Python objects.
    """
    if not is_json_lines(data):
        return parse_parquet(name, data)
    return table_of(parse_json_lines(name, data))


def table_of(records: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Objects as a table: a column a key, null where an object lacks it."""
    records = [_with_unicode(record) for record in records]
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


def is_unicode(text: str) -> bool:
    """Whether text is free of half surrogate pairs, which JSON can escape but UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_unicode(record: dict[str, Any]) -> dict[str, Any]:
    """The record with `?` for half surrogate pairs: responses that were cut may end in one."""
    text = json.dumps(record, ensure_ascii=False)
    if is_unicode(text):
        return record
    return dict(json.loads(text.encode("utf-8", "replace")))


def _series(name: str, values: list[Any]) -> pl.Series:
    """Values of mixed type (an answer that is now text, now a number) stay as they are."""
    try:
        return pl.Series(name, values, strict=True)
    except (TypeError, pl.exceptions.PolarsError, OverflowError):
        return pl.Series(name, values, dtype=pl.Object)
