"""The user's prompt file in canonical form, a batch of rows at a time.

What a column holds has been told by all its rows (`prompt_survey.py`), so that a batch does not
depend on its neighbours, nor on who reads it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.prompts import canonical_text, is_json_lines, parse_json_line, prompt_hash
from stages.tables.schemas import Prompts
from stages.tables.stream import ParquetRows

BATCH_ROWS = 2048
HEAD_BYTES = 64
TOKENS_COLUMN = "prompt_tokens"
Dtype = Any  # a polars data type, as class or instance
Records = pl.DataFrame | list[dict[str, Any]]  # rows of a Parquet or of a JSON lines file


class PromptBatch(NamedTuple):
    """Consecutive prompts of a file."""

    frame: pl.DataFrame  # schema Prompts; then prompt_tokens, where asked for; then what is kept
    raw: list[Any]  # text or list of messages, a prompt each, for the chat template


@dataclass(frozen=True)
class PromptSource:
    """A prompt file that has been surveyed. Pickles, for workers that see the same file."""

    path: str  # absolute
    name: str  # for messages
    sha256: str
    num_prompts: int
    prompt: str  # name of the column
    domain: str | None  # of the column; None: no prompt has a domain
    tokens: str | None  # of the column; None: not known
    has_tokens: bool  # whether a batch has a column for it
    kept: Mapping[str, Dtype] = field(default_factory=dict)

    @property
    def num_batches(self) -> int:
        """Of BATCH_ROWS prompts, the last one with the rest."""
        return -(-self.num_prompts // BATCH_ROWS)

    def batches(
        self, num_rows: int = BATCH_ROWS, numbers: Iterable[int] | None = None
    ) -> Iterator[PromptBatch]:
        """The prompts in their order.

        Args:
            num_rows: Of a batch; the last one holds the rest.
            numbers: Of the batches to yield, ascending; None: all.
        """
        readers = enumerate(read_records(Path(self.path), self.name, self._columns(), num_rows))
        if numbers is None:
            yield from (self._batch(read(), n * num_rows) for n, read in readers)
            return
        for wanted in numbers:
            read = next(read for number, read in readers if number == wanted)
            yield self._batch(read(), wanted * num_rows)

    def sample(self, num_prompts: int) -> list[str]:
        """The canonical text of at most so many prompts, at even distances."""
        stride = -(-self.num_prompts // num_prompts)
        texts = (
            canonical_text(prompt) or ""
            for read in read_records(Path(self.path), self.name, [self.prompt], BATCH_ROWS)
            for prompt in values(read(), self.prompt)
        )
        return list(islice(texts, 0, None, stride))

    def _columns(self) -> list[str]:
        named = (self.prompt, self.domain, self.tokens, *self.kept)
        return list(dict.fromkeys(column for column in named if column is not None))

    def _batch(self, records: Records, first_row: int) -> PromptBatch:
        raw = values(records, self.prompt)
        texts = [canonical_text(prompt) or "" for prompt in raw]
        none = [None] * len(raw)
        domains = values(records, self.domain) if self.domain else none
        columns = [
            pl.int_range(first_row, first_row + len(raw), dtype=pl.Int64, eager=True).alias(
                "prompt_id"
            ),
            pl.Series("prompt_hash", [prompt_hash(text) for text in texts]),
            pl.Series("prompt", texts),
            pl.Series("domain", [None if d is None else str(d) for d in domains], pl.String),
        ]
        if self.has_tokens:
            tokens = values(records, self.tokens) if self.tokens else none
            columns.append(pl.Series(TOKENS_COLUMN, map(_whole, tokens), pl.Int64))
        columns += [_kept(records, name, dtype) for name, dtype in self.kept.items()]
        return PromptBatch(conform(pl.DataFrame(columns), Prompts, self.name), raw)


def is_json(path: Path, name: str) -> bool:
    """Whether a file holds JSON lines rather than Parquet, told by its first bytes.

    Raises:
        AspError: It cannot be read, on this node if not on another.
    """
    try:
        with open(path, "rb") as file:
            return is_json_lines(file.read(HEAD_BYTES))
    except OSError as error:
        raise AspError(f"{name}: cannot be read: {error.strerror}") from None


def read_records(
    path: Path, name: str, columns: list[str] | None, num_rows: int
) -> Iterator[Callable[[], Records]]:
    """What reads each batch of rows: a batch that is passed over costs no parsing.

    JSON values are taken as they are. A table would add the keys of other rows as nulls, and a
    prompt's text would depend on its neighbours.
    """
    if not is_json(path, name):
        for frame in ParquetRows(name, path).batches(columns or [], num_rows):
            yield lambda frame=frame: frame  # type: ignore[misc]
        return
    with open(path, "rb") as file:
        lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        while batch := list(islice(lines, num_rows)):
            yield lambda batch=batch: [parse_json_line(name, n, line) for n, line in batch]  # type: ignore[misc]


def values(records: Records, column: str) -> list[Any]:
    """A column's values; nulls where there is none."""
    if isinstance(records, list):
        return [record.get(column) for record in records]
    return records[column].to_list() if column in records.columns else [None] * len(records)


def _whole(value: Any) -> int | None:
    return None if value is None or value != value else int(value)


def _kept(records: Records, column: str, dtype: Dtype) -> pl.Series:
    if isinstance(records, pl.DataFrame):
        return records[column].cast(dtype)
    return pl.Series(column, values(records, column), dtype, strict=False)
