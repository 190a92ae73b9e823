"""What is a log of rollouts? The one interface of every trainer's reader.

A layout says which files of a directory belong to the log, reads one of them as a table with a row
a response, and names the columns in which each field stands. What is read is never code: pickles
go through `pickles.py`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

import polars as pl

from stages.profile.values import numbers
from stages.tables.errors import AspError
from stages.tables.prompts import parse_records

Read = Callable[[str, bytes], pl.DataFrame]  # name of the file for messages, its bytes

FIELDS: dict[str, tuple[str, ...]] = {
    "prompt": ("prompt",),
    "tokens": ("response_tokens",),
    "response": ("response",),
    "model": ("model",),
    "sample_index": ("sample_index",),
    "prompt_tokens": ("prompt_tokens",),
    "finish_reason": ("finish_reason",),
    "capped": ("capped",),
    "max_tokens": ("max_tokens", "max_response_tokens"),  # the second: in a profile table
    "temperature": ("temperature",),
    "policy_version": ("policy_version",),
    "latency": ("latency_s",),
    "ttft": ("ttft_s",),
    "concurrency": ("concurrency",),
    "domain": ("domain",),
}
"""What a flag `--rollouts-FIELD-column` can name, and the columns it is looked for in."""


@dataclass(frozen=True)
class Layout:
    """One kind of log."""

    name: str  # as --from takes it
    about: str  # a few lines for the documentation: who writes it, what it says and does not
    columns: Mapping[str, tuple[str, ...]]  # of each field; the first one found counts
    read: Read = parse_records
    files: str = r"[^/]+\.(parquet|jsonl)"  # of a directory: a pattern of the path in it
    signs: frozenset[str] = frozenset()  # columns that give it away; none: it has to be named
    never: frozenset[str] = frozenset()  # columns that it does not have
    is_templated: bool = False  # prompts stand as the model got them, in its chat template
    needs_tokenizer: bool = False  # prompts stand as token ids
    has_lengths: bool = True  # else the text is all there is, and a tokenizer counts it
    sample: str = ""  # where the sample that it is tested on comes from

    def shows_in(self, columns: frozenset[str]) -> bool:
        """Whether a file with these columns is of this layout, as far as names tell."""
        return bool(self.signs) and self.signs <= columns and not self.never & columns

    def holds(self, path: PurePath) -> bool:
        """Whether a file at this path in a directory belongs to the log."""
        return re.fullmatch(self.files, path.as_posix()) is not None


def whole_numbers(table: pl.DataFrame, column: str, layout: str, name: str) -> pl.Series:
    """A column that the layout needs, as whole numbers.

    Raises:
        AspError: It is not there, or holds something else.
    """
    if column not in table.columns:
        raise AspError(
            f"{name}: no column {column!r}, which a log of {layout} has; "
            f"it has {', '.join(table.columns) or 'no columns'}"
        )
    rows = pl.int_range(len(table), dtype=pl.Int64, eager=True)
    where = f"{name}: column {column!r}"
    return numbers(table.get_column(column), where, rows, least=-1, is_whole=True, is_required=True)


def step_in(name: str, pattern: str) -> int | None:
    """The training step that a file's name says; `pattern` has one group, the number."""
    found = re.search(pattern, PurePath(name).name)
    return int(found[1]) if found else None
