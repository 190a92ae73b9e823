"""Whose answers are these? Recorded responses joined to the prompts, one row a response.

A response belongs to the prompt of the same canonical text, whatever ids either file uses; by an
id only where the user names a column that both files have. verl logs the prompt as the model got
it, chat template applied and special tokens dropped, so that form of each prompt is compared as
well. Equal texts of the prompt file share their responses, under the first one's prompt_id.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from stages.profile.recorded import RECORDED, Recording
from stages.profile.sampling import different
from stages.profile.values import names
from stages.tables.errors import AspError, first_few
from stages.tables.prompt_survey import PromptFile

_PLACE = ("file", "row", "text", "step")  # where a row stood, not what it says


class Tokenizer(Protocol):
    """What is asked of a tokenizer; `tokenizer.PromptTokenizer` is one."""

    @property
    def name(self) -> str:
        """Its name, without where it lies."""

    def digest(self) -> str:
        """A hash of what it does."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""

    def encode_prompt(self, prompt: Any) -> list[int]:
        """Token ids that a model is given for a prompt."""

    def logged_prompt(self, prompt: Any) -> str:
        """A prompt as verl's logs hold it."""


@dataclass(frozen=True)
class Joined:
    """Recorded responses and the prompts they answer."""

    frame: pl.DataFrame  # RECORDED with prompt_id, prompt_hash, prompt; each response once
    num_unmatched: int  # rows of no prompt
    num_repeated: int  # rows that said the same as an earlier one
    num_renumbered: int  # responses that have not kept the sample_index they came with


def join(recording: Recording, prompts: PromptFile, keys: pl.DataFrame, column: str) -> Joined:
    """Join responses to prompts.

    Args:
        recording: The responses.
        prompts: The prompts.
        keys: `key` and the `prompt_hash` it stands for, each key once.
        column: The column of RECORDED that holds the key: text or id.

    Raises:
        AspError: No response is of any prompt.
    """
    owners = keys.join(
        different(prompts.frame).select("prompt_id", "prompt_hash", "prompt"), on="prompt_hash"
    )
    matched = recording.frame.join(
        owners, left_on=column, right_on="key", how="inner", maintain_order="left"
    )
    if matched.is_empty():
        raise _nothing_joined(recording, prompts, keys.get_column("key"), column)
    frame, num_repeated, num_renumbered = number_samples(matched)
    return Joined(frame, len(recording.frame) - len(matched), num_repeated, num_renumbered)


def number_samples(matched: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
    """Give each response of a prompt a sample_index of its own, keeping recorded ones.

    Rows that agree in everything recorded are one response written twice; rows that share a
    sample_index only are two responses (of two training steps, say), and their prompt's are
    numbered anew in the order of appearance, as all are where the file does not number each.

    Returns:
        The responses, how many repeated rows were dropped, how many responses were renumbered.
    """
    appearance = pl.int_range(pl.len(), dtype=pl.Int64).over("prompt_hash")
    if matched.get_column("sample_index").has_nulls():
        num_numbered = int(matched.get_column("sample_index").is_not_null().sum())
        return matched.with_columns(sample_index=appearance), 0, num_numbered
    said = ["prompt_hash", *(c for c in RECORDED if c not in _PLACE)]
    kept = matched.unique(said, keep="first", maintain_order=True)
    is_shared = pl.struct("prompt_hash", "sample_index").is_duplicated().any().over("prompt_hash")
    renumbered = kept.with_columns(
        sample_index=pl.when(is_shared).then(appearance).otherwise("sample_index")
    )
    num_renumbered = kept.select(is_shared.sum()).item()
    return renumbered, len(matched) - len(kept), num_renumbered


def thin(responses: pl.DataFrame, prompts: pl.DataFrame, per_prompt: int | None) -> pl.DataFrame:
    """Keep the responses of these prompts, at most `per_prompt` of each: the first by index.

    The result is in the order of prompt_id and sample_index.
    """
    kept = responses.join(prompts.select("prompt_hash"), on="prompt_hash", how="semi")
    kept = kept.sort("prompt_id", "sample_index")
    if per_prompt is None:
        return kept
    return kept.group_by("prompt_hash", maintain_order=True).head(per_prompt)


def text_keys(
    recording: Recording, prompts: PromptFile, tokenizer: Tokenizer | None
) -> pl.DataFrame:
    """The texts under which a recording may hold each prompt, for `join`."""
    canonical = different(prompts.frame).select("prompt_id", "prompt_hash", key="prompt")
    if recording.layout != "verl":
        return canonical.select("key", "prompt_hash")
    keys = canonical.with_columns(pl.col("key").str.strip_chars())
    texts = recording.frame.select(key="text").drop_nulls()
    if tokenizer is not None and not texts.join(keys, on="key", how="anti").is_empty():
        logged = [
            tokenizer.logged_prompt(prompts.raw[prompt_id]).strip()
            for prompt_id in canonical.get_column("prompt_id")
        ]
        keys = pl.concat([keys, canonical.with_columns(pl.Series("key", logged))])
    return keys.select("key", "prompt_hash").unique("key", keep="first", maintain_order=True)


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


def count_tokens(responses: pl.DataFrame, tokenizer: Tokenizer) -> pl.DataFrame:
    """Fill `response_tokens` from the text of the responses where it is null.

    A text lacks the token that ended it, so one is added where a response stopped. Where the
    file does not say how it ended, it is taken to have stopped, unless it fills its cap without.
    On 2,078 responses of known length (SmolLM2-135M-Instruct, cap 512) all 1,896 that stopped were
    exact; 11 of 182 that were cut came out 2 to 6 tokens short, since cut text can merge anew.
    """
    counted = pl.Series(tokenizer.count(responses["response"].fill_null("").to_list()))
    has_end = pl.coalesce(
        pl.col("finish_reason") == "stop",
        ~pl.col("capped"),
        counted < pl.col("max_response_tokens"),
        pl.lit(True),
    )
    return responses.with_columns(
        pl.coalesce("response_tokens", counted.cast(pl.Int64) + has_end.cast(pl.Int64))
    )


def count_prompt_tokens(
    responses: pl.DataFrame, prompts: PromptFile, tokenizer: Tokenizer
) -> pl.DataFrame:
    """Fill `prompt_tokens` where it is null, with the chat template where there is one."""
    lacking = responses.filter(pl.col("prompt_tokens").is_null()).select("prompt_id").unique()
    ids = lacking.get_column("prompt_id").sort()
    counted = [len(tokenizer.encode_prompt(prompts.raw[prompt_id])) for prompt_id in ids]
    counts = pl.DataFrame({"prompt_id": ids, "counted": pl.Series(counted, dtype=pl.Int64)})
    return (
        responses.join(counts, on="prompt_id", how="left", maintain_order="left")
        .with_columns(pl.coalesce("prompt_tokens", "counted"))
        .drop("counted")
    )


def with_finish_reason(responses: pl.DataFrame) -> pl.DataFrame:
    """Fill `finish_reason`: as recorded; else by `capped`; else length at or over the cap."""
    is_at_cap = pl.col("capped").fill_null(
        (pl.col("response_tokens") >= pl.col("max_response_tokens")).fill_null(False)
    )
    inferred = pl.when(is_at_cap).then(pl.lit("length")).otherwise(pl.lit("stop"))
    return responses.with_columns(pl.col("finish_reason").fill_null(inferred))


def _nothing_joined(
    recording: Recording, prompts: PromptFile, ours: pl.Series, column: str
) -> AspError:
    held = recording.frame.get_column(column).drop_nulls()
    way_out = (
        "are these the prompts it was recorded with (--rollouts-prompt-column, --prompt-column)?"
        if recording.layout != "verl"
        else "verl logs prompts in the chat template: give the --tokenizer of that training"
    )
    return AspError(
        f"{recording.name}: none of its {len(recording.frame)} responses ({held.n_unique()} "
        f"different prompts) is of one of the {len(prompts.frame)} prompts of {prompts.name}: "
        f"{_example(held)} there, {_example(ours)} here; {way_out}"
    )


def _example(texts: Iterable[str]) -> str:
    first = next(iter(texts), "")
    return repr(first if len(first) <= 60 else first[:57] + "...")
