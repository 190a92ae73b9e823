"""A run's own responses as a profile, which `asp refresh` and `asp verify` read."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Made:
    """A sample group that was trained on."""

    prompt_id: int
    version: int  # policy version that made its first token
    tokens: tuple[int, ...]  # of each response
    step: int  # that trained on it, from 0


def profile_of(made: Sequence[Made], known: pl.DataFrame, model: str) -> pl.DataFrame:
    """A row a response, with its step; one prompt's responses are numbered on over the epochs.

    Args:
        made: In the order of the rows.
        known: Of each prompt: prompt_id, prompt_hash, prompt, max_response_tokens.
        model: Name of what answered.
    """
    rows = pl.DataFrame(
        {
            "prompt_id": [each.prompt_id for each in made],
            "policy_version": [each.version for each in made],
            "response_tokens": [list(each.tokens) for each in made],
            "step": [each.step for each in made],
        },
        schema_overrides={"response_tokens": pl.List(pl.Int64)},
    ).explode("response_tokens")
    return rows.join(known, on="prompt_id", maintain_order="left").with_columns(
        model=pl.lit(model),
        sample_index=pl.int_range(pl.len(), dtype=pl.Int64).over("prompt_hash"),
        finish_reason=pl.when(pl.col("response_tokens") >= pl.col("max_response_tokens"))
        .then(pl.lit("length"))
        .otherwise(pl.lit("stop"))
        .cast(pl.Enum(["stop", "length", "abort"])),
    )
