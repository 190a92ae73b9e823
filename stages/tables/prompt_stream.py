"""The user's prompt file in canonical form, a batch of rows at a time.

What a column holds has been told by all its rows (`prompt_survey.py`), so that a batch does not
depend on its neighbours, nor on who reads it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from stages.tables.io import conform
from stages.tables.kept import Dtype, kept_series
from stages.tables.prompts import canonical_text, prompt_hash
from stages.tables.records import Records, read_records, values
from stages.tables.schemas import Prompts

BATCH_ROWS = 2048
TOKENS_COLUMN = "prompt_tokens"


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
        columns += [kept_series(records, name, dtype) for name, dtype in self.kept.items()]
        return PromptBatch(conform(pl.DataFrame(columns), Prompts, self.name), raw)


def _whole(value: Any) -> int | None:
    return None if value is None or value != value else int(value)
