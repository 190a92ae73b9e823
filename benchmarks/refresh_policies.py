"""What do the three ways to load new weights cost: unload, finish, rolling?

On recorded lengths in random order, lag bound 4, near balance. Iteration time, tokens that were
prefilled again a trained token, lag, and the shares of generation that reload and that prefill
again; the ratio of iteration times to unload is paired by seed.

    python benchmarks/refresh_policies.py [ROLLOUTS.parquet [NUM_SEEDS]]
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from held_out import profile_of
from machine import heading

from rollout.control.settings import ControlSettings, Refresh
from rollout.control.uniform import uniform_plan
from rollout.simulator.cluster import Cluster, Engine, GenerationUnit, TrainingUnit
from rollout.simulator.simulate import simulate
from rollout.simulator.words import ratio_interval
from rollout.simulator.workload import workload_of
from stages.costs.model import CostModel

SAMPLES, SLOTS, NUM_ACTORS = 3, 24, 8
MINIBATCH, MINIBATCHES = 8, 16  # prompts a minibatch, minibatches a step
SLOT = 0.02 / SLOTS + 8e-5
COSTS = CostModel(0.02, 8e-5, prefill_seconds=0.1 * SLOT)
TRAINING = {"static": 5.0, "continuous": 1.2}  # over generation at full slots: near the true one
RELOADS = (0.01, 0.05)  # of an iteration's generation at full slots


class Row(NamedTuple):
    """Of one run."""

    seconds: float  # of an iteration
    refilled: float  # tokens prefilled again, over tokens trained on
    mean_lag: float
    max_lag: float
    reload: float  # share of generation
    carry: float


def measured(
    lengths: list[list[int]], engine: Engine, refresh: Refresh, reload: float, seed: int
) -> Row:
    """One run."""
    size = MINIBATCH * MINIBATCHES
    prompts = np.random.default_rng(seed).permutation(len(lengths))[: len(lengths) // size * size]
    plan = uniform_plan(prompts.tolist(), MINIBATCH, MINIBATCHES, SAMPLES)
    tokens = sum(sum(lengths[prompt]) for prompt in plan.prompt_g)
    generation = tokens * SLOT / NUM_ACTORS / plan.num_steps
    cluster = Cluster(
        (GenerationUnit(NUM_ACTORS, 1, SLOTS),),
        TrainingUnit(NUM_ACTORS, SLOT * TRAINING[engine]), COSTS, engine, reload * generation,
    )  # fmt: skip
    settings = ControlSettings(max_lag=4, refresh=refresh)
    run = simulate(plan, workload_of(plan, lengths.__getitem__), cluster, settings)
    spent = run.ledger_u["GU0"]
    refilled = spent.carry / (COSTS.prefill_seconds or 1) / tokens
    return Row(
        run.seconds / plan.num_steps, refilled, run.mean_lag(), run.max_lag,
        spent.reload / spent.total, spent.carry / spent.total,
    )  # fmt: skip


def main() -> None:
    """Print a table a model."""
    default = Path(__file__).parent.parent / "sample_data/rollouts.parquet"
    rollouts = pl.read_parquet(sys.argv[1] if len(sys.argv) > 1 else default)
    num_seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print(heading("Loading new weights: unload, finish, rolling"))
    print(f"{num_seeds} orders; in brackets 95% intervals. Reload: seconds of one, over an "
          "iteration's generation at full slots.\n")  # fmt: skip
    for (model,), part in rollouts.group_by("model", maintain_order=True):
        responses = profile_of(part).group_by("prompt_id").agg("response_tokens").sort("prompt_id")
        lengths = [
            [max(1, tokens) for tokens in row[:SAMPLES]]
            for row in responses["response_tokens"]
            if len(row) >= SAMPLES
        ]
        print(f"## {model}: {len(lengths)} prompts\n")
        print("| engine | reload | refresh | iteration | over unload | prefilled again, a token "
              "| mean lag | largest | reload | carry |\n|" + "---|" * 10)  # fmt: skip
        for engine in ("static", "continuous"):
            for reload in RELOADS:
                print_policies(lengths, engine, reload, num_seeds)
        print()


def print_policies(lengths: list[list[int]], engine: Engine, reload: float, num_seeds: int) -> None:
    """Three lines."""
    reference = None
    for refresh in ("unload", "finish", "rolling"):
        rows = [measured(lengths, engine, refresh, reload, seed) for seed in range(num_seeds)]
        seconds = np.array([row.seconds for row in rows])
        reference = seconds if reference is None else reference
        ratio = ""
        if refresh != "unload":
            middle, low, high = ratio_interval(seconds, reference)
            ratio = f"{middle:.3f} ({low:.3f} to {high:.3f})"
        mean = Row(*np.mean(rows, axis=0))
        largest = max(row.max_lag for row in rows)
        print(f"| {engine} | {reload:.0%} | {refresh} | {mean.seconds:.2f} s | {ratio} "
              f"| {mean.refilled:.3f} | {mean.mean_lag:.2f} | {largest:.0f} "
              f"| {mean.reload:.2%} | {mean.carry:.2%} |")  # fmt: skip


if __name__ == "__main__":
    main()
