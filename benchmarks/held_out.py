"""Lengths predicted in folds by prompt, with the recorded responses that benchmarks replay."""

import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from stages.lengths.table import columns, complete
from stages.predictor import embedded
from stages.predictor.observations import observe
from stages.tables.io import conform
from stages.tables.prompts import prompt_hash
from stages.tables.schemas import Lengths


def models() -> Iterator[tuple[str, pl.DataFrame]]:
    """Each model of the rollouts named on the command line, or of sample_data, and its profile."""
    default = Path(__file__).parent.parent / "sample_data/rollouts.parquet"
    rollouts = pl.read_parquet(sys.argv[1] if len(sys.argv) > 1 else default)
    for (model,), part in rollouts.group_by("model", maintain_order=True):
        yield str(model), profile_of(part)


def profile_of(rollouts: pl.DataFrame) -> pl.DataFrame:
    """Rollouts of one model as a profile table, prompts numbered in order of appearance."""
    number = {text: i for i, text in enumerate(dict.fromkeys(rollouts["prompt"]))}
    is_at_cap = pl.col("response_tokens") >= pl.col("max_tokens")
    domain = pl.col("task") if "task" in rollouts.columns else pl.lit(None, dtype=pl.String)
    return rollouts.select(
        pl.col("prompt").replace_strict(number).alias("prompt_id"),
        pl.col("prompt").map_elements(prompt_hash, return_dtype=pl.String).alias("prompt_hash"),
        "prompt",
        domain.alias("domain"),
        "model",
        "sample_index",
        pl.col("prompt_tokens").cast(pl.Int64),
        pl.col("response_tokens").cast(pl.Int64),
        pl.when(is_at_cap).then(pl.lit("length")).otherwise(pl.lit("stop")).alias("finish_reason"),
        pl.col("max_tokens").alias("max_response_tokens"),
        "temperature",
        pl.lit(0).alias("policy_version"),
    ).unique(["prompt_hash", "sample_index"], keep="first", maintain_order=True)


def lengths_of(
    model: str, profile: pl.DataFrame, seed: int, samples_per_prompt: int
) -> pl.DataFrame:
    """A lengths table whose every prompt was predicted by a predictor that had not seen it."""
    evidence = observe(profile, model)
    _, held_out = embedded.fit(evidence.observations, 5, seed)
    assert held_out is not None
    lengths = held_out.prediction.with_cap(evidence.prompts["cap"].to_numpy())
    frame = evidence.prompts.select("prompt_id", "prompt_hash", "cap").with_columns(
        **columns(lengths), samples_per_prompt=pl.lit(samples_per_prompt)
    )
    return conform(frame, Lengths, model, complete)
