"""Whose answers are these? Recorded responses joined to the prompts, one row a response.

A response belongs to the prompt under whose key it was recorded (`keys.py`). Equal texts of the
prompt file share their responses, under the first one's prompt_id.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from stages.profile.keys import Tokenizer
from stages.profile.normal import RECORDED
from stages.profile.recorded import Recording
from stages.profile.sampling import different
from stages.tables.errors import AspError, shorten
from stages.tables.prompt_survey import PromptFile

_PLACE = ("file", "row", "text", "prompt_ids", "step")  # where a row stood, not what it says


@dataclass(frozen=True)
class Joined:
    """Recorded responses and the prompts they answer."""

    frame: pl.DataFrame  # RECORDED with prompt_id, prompt_hash, prompt; each response once
    num_unmatched: int  # rows of no prompt
    unmatched: str | None  # the key of one of them
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
    left = recording.frame.join(owners, left_on=column, right_on="key", how="anti")
    example = next(iter(left.get_column(column).drop_nulls()), None)
    frame, num_repeated, num_renumbered = number_samples(matched)
    return Joined(frame, len(left), example, num_repeated, num_renumbered)


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


def count_tokens(responses: pl.DataFrame, tokenizer: Tokenizer) -> pl.DataFrame:
    """Fill `response_tokens` from the text of the responses where it is null; mark those rows.

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
        pl.coalesce("response_tokens", counted.cast(pl.Int64) + has_end.cast(pl.Int64)),
        tokens_from=pl.when(pl.col("response_tokens").is_null())
        .then(pl.lit("text"))
        .otherwise("tokens_from"),
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
        if not recording.layout.is_templated
        else f"{recording.layout.name} logs prompts in the chat template: "
        "give the --tokenizer of that training"
    )
    return AspError(
        f"{recording.name}: none of its {len(recording.frame)} responses ({held.n_unique()} "
        f"different prompts) is of one of the {len(prompts.frame)} prompts of {prompts.name}: "
        f"{_example(held)} there, {_example(ours)} here; {way_out}"
    )


def _example(texts: Iterable[str]) -> str:
    return repr(shorten(next(iter(texts), ""), 60))
