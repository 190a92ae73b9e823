"""What is each way to cut minibatches worth on true lengths?

Lengths are predicted in 5 folds by prompt, so no prompt's own responses enter its prediction.
Measured is the utilisation of static minibatches on the recorded responses, all samples: useful
tokens over slots x longest. Intervals: least and most over three seeds of folds and predictor.

    python benchmarks/partition_quality.py [ROLLOUTS.parquet]
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl
from machine import heading

from stages.lengths.table import complete
from stages.partition.stage import PartitionConfig, partition
from stages.predictor import embedded
from stages.predictor.observations import observe
from stages.tables.io import conform
from stages.tables.prompts import prompt_hash
from stages.tables.schemas import Lengths

SEEDS = (0, 1, 2)
WAYS = {
    "random": PartitionConfig(method="random"),
    "sorted by expected, fixed cut": PartitionConfig(method="fixed", by="expected"),
    "sorted by upper, fixed cut": PartitionConfig(method="fixed", by="upper"),
    "utilization": PartitionConfig(objective="utilization"),
    "padding": PartitionConfig(objective="padding"),
    "expected-padding, by expected": PartitionConfig(by="expected"),
    "expected-padding, by longest": PartitionConfig(by="longest"),
    "expected-padding (default)": PartitionConfig(),
}


def utilization(
    minibatches: pl.DataFrame, total: np.ndarray, longest: np.ndarray, count: np.ndarray
) -> float:
    paid = 0.0
    for ids in minibatches["prompt_ids"]:
        inside = ids.to_numpy()
        paid += count[inside].sum() * longest[inside].max()
    return float(total.sum() / paid)


def profile_of(rollouts: pl.DataFrame) -> pl.DataFrame:
    """Rollouts of one model as a profile table, prompts numbered in order of appearance."""
    number = {text: i for i, text in enumerate(dict.fromkeys(rollouts["prompt"]))}
    is_at_cap = pl.col("response_tokens") >= pl.col("max_tokens")
    return rollouts.select(
        pl.col("prompt").replace_strict(number).alias("prompt_id"),
        pl.col("prompt").map_elements(prompt_hash, return_dtype=pl.String).alias("prompt_hash"),
        "prompt",
        "model",
        "sample_index",
        pl.col("prompt_tokens").cast(pl.Int64),
        pl.col("response_tokens").cast(pl.Int64),
        pl.when(is_at_cap).then(pl.lit("length")).otherwise(pl.lit("stop")).alias("finish_reason"),
        pl.col("max_tokens").alias("max_response_tokens"),
        "temperature",
        pl.lit(0).alias("policy_version"),
    ).unique(["prompt_hash", "sample_index"], keep="first", maintain_order=True)


def main() -> None:
    """Print a table a model: ways to cut down, minibatch sizes across."""
    default = Path(__file__).parent.parent / "sample_data/rollouts.parquet"
    rollouts = pl.read_parquet(sys.argv[1] if len(sys.argv) > 1 else default)
    print(heading("Utilisation of static minibatches on true lengths"))
    for (model,), part in rollouts.group_by("model", maintain_order=True):
        measure_model(str(model), profile_of(part))


def measure_model(model: str, profile: pl.DataFrame) -> None:
    lengths_of_seed = []
    for seed in SEEDS:
        evidence = observe(profile, model)
        _, held_out = embedded.fit(evidence.observations, 5, seed)
        assert held_out is not None
        mu, sigma, chance = held_out.prediction
        frame = evidence.prompts.select("prompt_id", "prompt_hash", "cap").with_columns(
            mu=mu,
            sigma=sigma,
            sample_sigma=pl.Series(chance).fill_nan(None),
            samples_per_prompt=pl.lit(3),
        )
        lengths_of_seed.append(conform(frame, Lengths, model, complete))
    tokens = pl.col("response_tokens")
    per_prompt = profile.group_by("prompt_id").agg(
        tokens.sum().alias("total"), tokens.max().alias("longest"), pl.len().alias("count")
    )
    total, longest, count = (
        per_prompt.sort("prompt_id")[name].to_numpy().astype(float)
        for name in ("total", "longest", "count")
    )
    print(f"## {model}: {len(per_prompt)} prompts, {len(profile)} responses\n")
    print("| way to cut | B = 8 | B = 32 |\n|---|---|---|")
    for name, config in WAYS.items():
        cells = []
        for batch_size in (8, 32):
            values = []
            for seed, lengths in zip(SEEDS, lengths_of_seed, strict=True):
                sized = PartitionConfig(**vars(config) | {"batch_size": batch_size, "seed": seed})
                values.append(utilization(partition(lengths, sized)[0], total, longest, count))
            cells.append(f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})")
        print(f"| {name} | {cells[0]} | {cells[1]} |")
    oracle = lengths_of_seed[0].with_columns(
        expected_tokens=pl.Series(total / count), expected_longest=pl.Series(longest)
    )
    for name, by in (("perfect mean", "expected"), ("perfect longest", "longest")):
        cells = []
        for batch_size in (8, 32):
            config = PartitionConfig(batch_size=batch_size, method="fixed", by=by)  # type: ignore[arg-type]
            cut, _ = partition(oracle, config)
            cells.append(f"{utilization(cut, total, longest, count):.3f}")
        print(f"| {name}, fixed cut | {cells[0]} | {cells[1]} |")
    print()


if __name__ == "__main__":
    main()
