"""Is the user's prompt file sound, and what do its columns hold?

A pass over the whole file before any work is done on it, so that a mistake in the last row is told
at once. Memory: 8 bytes a prompt beside a batch of rows.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from stages.tables.errors import AspError, first_few, log
from stages.tables.kept import Dtype, plain_type, types_of
from stages.tables.prompt_stream import BATCH_ROWS, TOKENS_COLUMN, PromptSource
from stages.tables.prompts import (
    DEFAULT_DOMAIN_COLUMN,
    DEFAULT_PROMPT_COLUMN,
    canonical_text,
    is_unicode,
    prompt_hash,
)
from stages.tables.records import Records, is_json, read_records, values
from stages.tables.stream import ParquetRows, readable_twice


@dataclass(frozen=True)
class PromptColumns:
    """The columns of a prompt file that are read."""

    prompt: str = DEFAULT_PROMPT_COLUMN
    domain: str | None = None  # None: DEFAULT_DOMAIN_COLUMN where there is such a one
    has_tokens: bool = False  # prompt_tokens too, where there is such a column
    kept: tuple[str, ...] = ()  # handed on as they are


@dataclass(frozen=True)
class PromptFile:
    """A prompt file in canonical form, beside the prompts as the user wrote them."""

    frame: pl.DataFrame  # schema Prompts, in the order of the file
    raw: list[Any]  # text or list of messages, a prompt each, for the chat template
    name: str
    sha256: str


@contextmanager
def open_prompts(
    path: str, columns: PromptColumns, num_rows: int = BATCH_ROWS
) -> Iterator[PromptSource]:
    """Survey a prompt file; it can be read until the block ends.

    Args:
        path: Parquet or JSON lines; `-` is standard input.
        columns: Which of its columns to read.
        num_rows: Surveyed at once; of no effect on the result.

    Raises:
        AspError: No rows, no such column, a prompt that is null, empty or of another type, a
            domain that is a list or a structure, a kept column that is no column of plain values.
    """
    with readable_twice(path) as (name, file):
        yield _survey(file.absolute(), name, columns, num_rows)


def read_prompts(
    path: str, column: str = DEFAULT_PROMPT_COLUMN, domain_column: str | None = None
) -> PromptFile:
    """Read a whole prompt file.

    Args:
        path: The file; `-` is standard input.
        column: With the prompts.
        domain_column: With their domains; None: DEFAULT_DOMAIN_COLUMN where there is such a one.

    Raises:
        AspError: As `open_prompts`.
    """
    with open_prompts(path, PromptColumns(column, domain_column)) as source:
        batches = list(source.batches())
    return PromptFile(
        pl.concat(batch.frame for batch in batches),
        [prompt for batch in batches for prompt in batch.raw],
        source.name,
        source.sha256,
    )


def _survey(path: Path, name: str, columns: PromptColumns, num_rows: int) -> PromptSource:
    survey = _Survey(name, columns)
    read_columns = None
    if not is_json(path, name):
        survey.held = ParquetRows(name, path).columns
        survey.refuse_missing()
        read_columns = [column for column in survey.flags if column in survey.held]
    for read in read_records(path, name, read_columns, num_rows):
        survey.look(read())
    survey.refuse_missing()
    if not survey.num_prompts:
        raise AspError(f"{name}: holds no prompts: it has zero rows")
    survey.faults.refuse(name, columns.prompt)
    survey.tell_of_duplicates()
    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return PromptSource(
        path=str(path),
        name=name,
        sha256=sha256,
        num_prompts=survey.num_prompts,
        prompt=columns.prompt,
        domain=survey.domain_column(),
        tokens=survey.tokens_column(),
        has_tokens=columns.has_tokens,
        kept={column: plain_type(name, column, found) for column, found in survey.types.items()},
    )


class _Survey:
    """What the batches of a file hold, each looked at once."""

    def __init__(self, name: str, columns: PromptColumns) -> None:
        self.name = name
        self.columns = columns
        self.domain = columns.domain or DEFAULT_DOMAIN_COLUMN
        self.flags = {columns.prompt: "--prompt-column", self.domain: "--domain-column"}
        self.flags |= dict.fromkeys(columns.kept, "--keep-column")
        self.optional = set() if columns.domain else {DEFAULT_DOMAIN_COLUMN}
        if columns.has_tokens:
            self.flags.setdefault(TOKENS_COLUMN, "")
            self.optional.add(TOKENS_COLUMN)
        self.optional -= {columns.prompt, *columns.kept}
        self.held: list[str] = []  # columns, in their order
        self.num_prompts = 0
        self.faults = _Faults()
        self.types: dict[str, set[Dtype]] = {column: set() for column in columns.kept}
        self._hashes: list[np.ndarray] = []
        self._nested_domains: list[int] = []  # rows
        self._odd_tokens: list[int] = []  # rows

    def look(self, records: Records) -> None:
        """Take in the next batch of rows."""
        if isinstance(records, list):
            self.held = list(dict.fromkeys([*self.held, *(key for r in records for key in r)]))
        texts = [canonical_text(prompt) for prompt in values(records, self.columns.prompt)]
        self.faults.look(texts, self.num_prompts)
        self._hashes.append(np.array([_hash_number(text) for text in texts], dtype=np.uint64))
        self._nested_domains += self._rows(_is_nested, values(records, self.domain))
        if self.columns.has_tokens:
            self._odd_tokens += self._rows(_is_not_whole, values(records, TOKENS_COLUMN))
        for column in self.columns.kept:
            self.types[column] |= types_of(records, column)
        self.num_prompts += len(texts)

    def _rows(self, is_so: Callable[[object], bool], found: list[Any]) -> list[int]:
        return [row for row, value in enumerate(found, self.num_prompts) if is_so(value)]

    def refuse_missing(self) -> None:
        """Raise AspError where a column that is needed is not there."""
        for missing in (c for c in self.flags if c not in self.held and c not in self.optional):
            raise AspError(
                f"{self.name}: no column {missing!r} ({self.flags[missing]}); "
                f"it has {', '.join(self.held) or 'no columns'}"
            )

    def domain_column(self) -> str | None:
        """The column of the domains; None where one of the default name holds something else."""
        if self._nested_domains and self.columns.domain is not None:
            raise AspError(
                f"{self.name}: column {self.domain!r} (--domain-column): "
                f"{len(self._nested_domains)} values are lists or structures, first in row "
                f"{first_few(self._nested_domains)} (from 0); name a column of text"
            )
        return self.domain if self.domain in self.held and not self._nested_domains else None

    def tokens_column(self) -> str | None:
        """The column of prompt lengths; None where there is none, or it holds something else."""
        if not self.columns.has_tokens or TOKENS_COLUMN not in self.held:
            return None
        if self._odd_tokens:
            log.warning(
                "%s: column %r is left out: %d values are no whole numbers, first in row %s "
                "(from 0)", self.name, TOKENS_COLUMN, len(self._odd_tokens),
                first_few(self._odd_tokens),
            )  # fmt: skip
            return None
        return TOKENS_COLUMN

    def tell_of_duplicates(self) -> None:
        """Warn where prompts are repeated."""
        num_duplicates = self.num_prompts - len(np.unique(np.concatenate(self._hashes)))
        if num_duplicates:
            log.warning(
                "%s: %d of %d prompts repeat an earlier one; they are kept and share observations",
                self.name, num_duplicates, self.num_prompts,
            )  # fmt: skip


class _Faults:
    """Rows whose prompt is none, by what is wrong with it."""

    def __init__(self) -> None:
        self._unusable: list[int] = []
        self._halves: list[int] = []
        self._empty: list[int] = []

    def look(self, texts: list[str | None], first_row: int) -> None:
        """Note the rows of a batch."""
        for row, text in enumerate(texts, first_row):
            if text is None:
                self._unusable.append(row)
            elif not text.strip():
                self._empty.append(row)
            elif not is_unicode(text):
                self._halves.append(row)

    def refuse(self, name: str, column: str) -> None:
        """Raise AspError where there is one."""
        for what, rows in (
            ("neither text nor a list of {role, content}", self._unusable),
            ("no text: they hold half of a surrogate pair", self._halves),
            ("empty", self._empty),
        ):
            if rows:
                raise AspError(
                    f"{name}: column {column!r}: {len(rows)} prompts are {what}, first in row "
                    f"{first_few(rows)} (from 0); remove or mend them"
                )


def _hash_number(text: str | None) -> int:
    return int(prompt_hash(text or ""), 16)


def _is_nested(value: object) -> bool:
    return isinstance(value, list | dict)


def _is_not_whole(value: object) -> bool:
    """Whether a value is neither null nor a count; pandas writes counts with gaps as floats."""
    if value is None or value != value:
        return False
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return not (is_number and 0 <= value < 2**63 and value == int(value))  # type: ignore[operator, call-overload]
