"""What is each way to cut minibatches worth on true lengths?

Lengths are predicted in 5 folds by prompt, so no prompt's own responses enter its prediction.
Measured is the utilisation of static minibatches on the recorded responses, all samples: useful
tokens over slots x longest. Intervals: least and most over three seeds of folds and predictor.

    python benchmarks/partition_quality.py [ROLLOUTS.parquet]
"""

import numpy as np
import polars as pl
from held_out import lengths_of, models
from machine import heading

from stages.partition.config import PartitionConfig
from stages.partition.stage import partition

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


def main() -> None:
    """Print a table a model: ways to cut down, minibatch sizes across."""
    print(heading("Utilisation of static minibatches on true lengths"))
    for model, profile in models():
        measure_model(model, profile)


def measure_model(model: str, profile: pl.DataFrame) -> None:
    lengths_of_seed = [lengths_of(model, profile, seed, 3) for seed in SEEDS]
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
