"""Under which keys may a log hold a prompt?

Under its canonical text, whatever ids either file uses; under an id only where the user names a
column that both files have. Trainers that log the prompt as the model got it, chat template
applied, are met with the rendered prompt where there is a tokenizer, and with the frame that the
log itself shows: what stands before and after every prompt.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import polars as pl

from stages.profile.recorded import Recording
from stages.profile.sampling import different
from stages.profile.values import names
from stages.tables.errors import AspError, first_few
from stages.tables.io import read_bytes
from stages.tables.prompt_survey import PromptFile
from stages.tables.prompts import parse_records

NUM_TRIED = 32  # logged texts in which a frame is looked for


class Tokenizer(Protocol):
    """What is asked of a tokenizer; `stages/tokens` has one."""

    @property
    def name(self) -> str:
        """Its name, without where it lies."""

    def digest(self) -> str:
        """A hash of what it does."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""

    def encode_prompt(self, prompt: Any) -> list[int]:
        """Token ids that a model is given for a prompt."""

    def decode(self, ids: Sequence[int], has_specials: bool = False) -> str:
        """The text of token ids, special tokens left out unless `has_specials`."""


class Keyed(NamedTuple):
    """A recording, and how its responses find their prompts."""

    recording: Recording
    keys: pl.DataFrame  # key, prompt_hash
    column: str  # of the recording, with the keys


def keyed(
    recording: Recording, prompts: PromptFile, id_column: str | None, tokenizer: Tokenizer | None
) -> Keyed:
    """Match by an id that both files have, or by text where none is named.

    Args:
        recording: Read with the same id column.
        prompts: A file, not standard input, where an id is named: it is read again.
        id_column: Of both files.
        tokenizer: Of the training; None: not known.

    Raises:
        AspError: As `decoded` and `id_keys`.
    """
    if id_column is None:
        recording = decoded(recording, tokenizer)
        return Keyed(recording, text_keys(recording, prompts, tokenizer), "text")
    table = parse_records(*read_bytes(prompts.name))
    return Keyed(recording, id_keys(table, id_column, prompts), "id")


def text_keys(
    recording: Recording, prompts: PromptFile, tokenizer: Tokenizer | None
) -> pl.DataFrame:
    """The texts under which a recording may hold each prompt, for `join`."""
    canonical = different(prompts.frame).select("prompt_id", "prompt_hash", key="prompt")
    if not recording.layout.is_templated:
        return canonical.select("key", "prompt_hash")
    ids = canonical.get_column("prompt_id")
    keys = [canonical.with_columns(pl.col("key").str.strip_chars())]
    logged = recording.frame.get_column("text").drop_nulls().unique(maintain_order=True)
    if tokenizer is not None and _are_missing(logged, keys):
        rendered = [tokenizer.encode_prompt(prompts.raw[prompt_id]) for prompt_id in ids]
        for has_specials in (False, True):
            texts = [tokenizer.decode(tokens, has_specials).strip() for tokens in rendered]
            keys.append(canonical.with_columns(pl.Series("key", texts)))
    if _are_missing(logged, keys):
        contents = [last_content(prompts.raw[prompt_id]) for prompt_id in ids]
        before, after = frame_of(logged.to_list(), contents)
        framed = pl.Series("key", [f"{before}{content}{after}" for content in contents])
        of_one = canonical.with_columns(framed.str.strip_chars())
        keys.append(of_one.filter(~pl.col("key").is_duplicated()))
    held = pl.concat(keys).select("key", "prompt_hash")
    return held.unique("key", keep="first", maintain_order=True)


def frame_of(logged: Sequence[str], contents: Sequence[str]) -> tuple[str, str]:
    """What a template puts before and after every prompt; empty where none shows.

    In the first logged texts every prompt is sought that they contain. What surrounds one in most
    of them is the frame, the shortest of several, if it does so in two texts or in the only one.
    Texts are joined by this frame to the letter, so a wrong one joins nothing.
    """
    sought = sorted(set(filter(None, map(str.strip, contents))))
    found: Counter[tuple[str, str]] = Counter()
    for text in logged[:NUM_TRIED]:
        for content in sought:
            if content in text:
                places = (match.start() for match in re.finditer(f"(?={re.escape(content)})", text))
                found.update((text[:at], text[at + len(content) :]) for at in places)
    if not found:
        return "", ""
    frame = min(found, key=lambda frame: (-found[frame], len(frame[0]) + len(frame[1]), frame))
    return frame if found[frame] >= min(2, len(logged)) else ("", "")


def last_content(prompt: Any) -> str:
    """The text of a prompt, or of its last message."""
    if isinstance(prompt, str):
        return prompt.strip()
    content = prompt[-1].get("content") if prompt else ""
    return content.strip() if isinstance(content, str) else ""


def decoded(recording: Recording, tokenizer: Tokenizer | None) -> Recording:
    """The recording with the text of prompts of which it holds the token ids alone.

    Raises:
        AspError: There are such, and no tokenizer.
    """
    frame = recording.frame
    needed = frame.filter(pl.col("text").is_null() & pl.col("prompt_ids").is_not_null())
    if needed.is_empty():
        return recording
    if tokenizer is None:
        raise AspError(
            f"{recording.name}: holds the prompts as token ids; give the --tokenizer of that "
            "training to turn them into text, or --rollouts-id-column NAME"
        )
    ids = needed.get_column("prompt_ids").unique(maintain_order=True)
    texts = pl.DataFrame({"prompt_ids": ids, "decoded": [tokenizer.decode(i).strip() for i in ids]})
    joined = frame.join(texts, on="prompt_ids", how="left", maintain_order="left")
    filled = joined.with_columns(pl.coalesce("text", "decoded")).drop("decoded")
    return replace(recording, frame=filled)


def _are_missing(logged: pl.Series, keys: Sequence[pl.DataFrame]) -> bool:
    """Whether a logged text is under none of the keys."""
    return not logged.is_in(pl.concat(keys).get_column("key").implode()).all()


def id_keys(table: pl.DataFrame, column: str, prompts: PromptFile) -> pl.DataFrame:
    """The ids of the prompts, for `join`.

    Args:
        table: The prompt file as the user wrote it.
        column: Its column of ids.
        prompts: The same file in canonical form.

    Raises:
        AspError: No such column, or one id for two different prompts.
    """
    if column not in table.columns:
        raise AspError(
            f"{prompts.name}: no column {column!r} (--rollouts-id-column), which both files need; "
            f"it has {', '.join(table.columns)}; leave the flag out to join by the prompt's text"
        )
    keys = pl.DataFrame(
        {"key": names(table.get_column(column)), "prompt_hash": prompts.frame["prompt_hash"]}
    )
    keys = keys.drop_nulls("key").unique(maintain_order=True)
    shared = (
        keys.filter(pl.col("key").is_duplicated()).get_column("key").unique(maintain_order=True)
    )
    if len(shared):
        raise AspError(
            f"{prompts.name}: column {column!r} (--rollouts-id-column) gives {len(shared)} ids to "
            f"more than one prompt: {first_few(shared)}; mend it, or join by the prompt's text"
        )
    return keys
