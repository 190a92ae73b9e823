"""How does the time a prompt grow with the number of prompts?

In process, after a warm-up that compiles: partition (expected padding and utilisation) and balance,
on log-normal lengths.

    python benchmarks/partition_scale.py
"""

import resource
import time

import numpy as np
import polars as pl
from machine import heading

from stages.balance.stage import BalanceConfig, balance
from stages.lengths.table import complete
from stages.partition.config import PartitionConfig
from stages.partition.stage import partition
from stages.tables.io import conform
from stages.tables.schemas import Lengths


def lengths_of(num_prompts: int) -> pl.DataFrame:
    """A complete lengths table of 8 samples a prompt."""
    rng = np.random.default_rng(0)
    sigma = np.full(num_prompts, 0.8)
    frame = pl.DataFrame(
        {"prompt_id": np.arange(num_prompts), "mu": rng.normal(5, 1, num_prompts), "sigma": sigma,
         "sample_sigma": 0.6 * sigma, "cap": 4096, "samples_per_prompt": 8}
    )  # fmt: skip
    return conform(frame, Lengths, "benchmark", complete)


def main() -> None:
    """Print microseconds a prompt."""
    print(heading("Microseconds a prompt"))
    print("| prompts | expected-padding | utilization | balance |\n|---|---|---|---|")
    ways = [PartitionConfig(), PartitionConfig(objective="utilization")]
    for way in ways:
        balance(partition(lengths_of(5_000), way)[0], BalanceConfig())
    for num_prompts in (10_000, 100_000, 1_000_000):
        lengths, cells = lengths_of(num_prompts), []
        for way in ways:
            start = time.perf_counter()
            minibatches, _ = partition(lengths, way)
            cells.append((time.perf_counter() - start) / num_prompts * 1e6)
        start = time.perf_counter()
        balance(minibatches, BalanceConfig())
        cells.append((time.perf_counter() - start) / num_prompts * 1e6)
        print(f"| {num_prompts:,} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\nLargest resident memory: {peak:.2f} GiB")


if __name__ == "__main__":
    main()
