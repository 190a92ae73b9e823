"""What are order and token budgets worth at a given lag bound?

Iteration time over max(generation at full slots, training), on recorded lengths: 8 actors of 24
slots, a step of 128 prompts x 3 samples in minibatches of 8 prompts, a decode step of 1 + 0.004 x
sequences, training 0.6 of generation at full slots, no cost of refresh. Steps are consumed in
dispatch order. Predictions are made in 5 folds by prompt.

    python benchmarks/lag_and_budgets.py [ROLLOUTS.parquet [NUM_SEEDS]]
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from held_out import lengths_of, profile_of
from machine import heading

from rollout.control.plan import Plan, uniform_plan
from rollout.control.settings import ControlSettings
from rollout.simulator.cluster import Cluster, Engine, GenerationUnit, TrainingUnit
from rollout.simulator.run import Run
from rollout.simulator.simulate import simulate
from rollout.simulator.workload import workload_of
from stages.costs.model import CostModel

LAG_BOUNDS = (0, 1, 4)
NUM_ACTORS, SLOTS, SAMPLES = 8, 24, 3
MINIBATCH, MINIBATCHES = 8, 16  # prompts a minibatch, minibatches a step
STEP = CostModel(step_seconds=1.0, sequence_seconds=0.004)
Order = Callable[[np.random.Generator], list[int]]


def orders(longest: np.ndarray, predicted: np.ndarray) -> dict[str, Order]:
    """Prompts in dispatch order, by what is known of them."""
    by_predicted = np.argsort(predicted, kind="stable")
    by_longest = np.argsort(longest, kind="stable")
    return {
        "shuffled": lambda rng: rng.permutation(len(longest)).tolist(),
        "sorted": lambda rng: by_predicted.tolist(),
        "balanced": lambda rng: _balanced(by_predicted, rng),
        "perfect, balanced": lambda rng: _balanced(by_longest, rng),
        "perfect, like together": lambda rng: _like_together(by_longest, rng),
    }


def _balanced(order: np.ndarray, rng: np.random.Generator) -> list[int]:
    """Minibatches of neighbours, dealt to the groups to and fro; groups in random order."""
    minibatches = [order[start : start + MINIBATCH] for start in range(0, len(order), MINIBATCH)]
    num_groups = len(minibatches) // MINIBATCHES
    groups: list[list[np.ndarray]] = [[] for _ in range(num_groups)]
    for place, minibatch in enumerate(minibatches[: num_groups * MINIBATCHES]):
        turn, number = divmod(place, num_groups)
        groups[num_groups - 1 - number if turn % 2 else number].append(minibatch)
    mixed = [groups[group][place] for group in rng.permutation(num_groups)
             for place in rng.permutation(MINIBATCHES)]  # fmt: skip
    return np.concatenate(mixed).tolist()


def _like_together(order: np.ndarray, rng: np.random.Generator) -> list[int]:
    """Groups of neighbours, in random order."""
    size = MINIBATCH * MINIBATCHES
    whole = order[: len(order) // size * size].reshape(-1, size)
    return np.concatenate(rng.permutation(whole)).tolist()


def run(
    plan: Plan, lengths: list[list[int]], engine: Engine, settings: ControlSettings
) -> tuple[Run, float]:
    """A run, and its iteration time over the bound."""
    step = STEP.step_seconds / SLOTS + STEP.sequence_seconds  # of a token at full slots
    training = TrainingUnit(num_devices=1, token_device_seconds=0.6 * step / NUM_ACTORS)
    cluster = Cluster(
        (GenerationUnit(NUM_ACTORS, 1, SLOTS),), training, STEP, engine, reload_seconds=0.0
    )
    done = simulate(plan, workload_of(plan, lengths.__getitem__), cluster, settings)
    tokens = sum(sum(lengths[prompt]) for prompt in plan.prompt_g)
    return done, done.seconds / (tokens * step / NUM_ACTORS)


def whole_steps(prompts: list[int]) -> list[int]:
    """Without the remainder."""
    return prompts[: len(prompts) // (MINIBATCH * MINIBATCHES) * MINIBATCH * MINIBATCHES]


def models(rollouts: pl.DataFrame) -> Iterator[tuple[str, list[list[int]], np.ndarray]]:
    """Model, lengths of 3 samples a prompt, predicted longest of 3."""
    for (model,), part in rollouts.group_by("model", maintain_order=True):
        profile = profile_of(part)
        predicted = lengths_of(str(model), profile, 0, SAMPLES).select(
            "prompt_id", "expected_longest"
        )
        observed = profile.group_by("prompt_id").agg("response_tokens")
        known = (
            predicted.join(observed, on="prompt_id")
            .filter(pl.col("response_tokens").list.len() >= SAMPLES)
            .sort("prompt_id")
        )
        lengths = [[max(1, tokens) for tokens in row[:SAMPLES]] for row in known["response_tokens"]]
        yield str(model), lengths, known["expected_longest"].to_numpy()


def main() -> None:
    """Print the tables of each model."""
    default = Path(__file__).parent.parent / "sample_data/rollouts.parquet"
    rollouts = pl.read_parquet(sys.argv[1] if len(sys.argv) > 1 else default)
    num_seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print(heading("Iteration time over max(generation at full slots, training)"))
    for model, lengths, predicted in models(rollouts):
        print(f"## {model}: {len(lengths)} prompts\n")
        print_orders(lengths, predicted, num_seeds)
        print_budgets(lengths, num_seeds)


def print_orders(lengths: list[list[int]], predicted: np.ndarray, num_seeds: int) -> None:
    """Order alone."""
    longest = np.array([max(tokens) for tokens in lengths])
    ways = orders(longest, predicted)
    print(f"| engine, lag bound | {' | '.join(ways)} |\n|{'---|' * (len(ways) + 1)}")
    for engine in ("static", "continuous"):
        for max_lag in LAG_BOUNDS:
            cells = []
            for order in ways.values():
                ratios = []
                for seed in range(num_seeds):
                    prompts = whole_steps(order(np.random.default_rng(seed)))
                    plan = uniform_plan(prompts, MINIBATCH, MINIBATCHES, SAMPLES)
                    done, ratio = run(plan, lengths, engine, ControlSettings(max_lag=max_lag))
                    assert done.max_lag <= max_lag
                    ratios.append(ratio)
                cells.append(f"{np.mean(ratios):.2f}")
            print(f"| {engine}, {max_lag} | {' | '.join(cells)} |")
    print()


def print_budgets(lengths: list[list[int]], num_seeds: int) -> None:
    """Budgets at quantiles of all lengths, random order: one round, or two."""
    every = np.concatenate(lengths)
    ladders = {"1 round": (0.9,), "2 rounds": (0.8, 0.95)}
    ways = {
        f"{carry}, {name}": (carry, [int(np.quantile(every, part)) for part in parts])
        for carry in ("tokens", "restart")
        for name, parts in ladders.items()
        if carry == "tokens" or len(parts) == 1
    }
    print(f"| engine, lag bound | none | {' | '.join(ways)} |\n|{'---|' * (len(ways) + 2)}")
    for engine in ("static", "continuous"):
        for max_lag in LAG_BOUNDS:
            cells = []
            for carry, budgets in [("tokens", []), *ways.values()]:
                results = []
                for seed in range(num_seeds):
                    prompts = np.random.default_rng(seed).permutation(len(lengths)).tolist()
                    plan = uniform_plan(
                        whole_steps(prompts), MINIBATCH, MINIBATCHES, SAMPLES, budgets
                    )
                    settings = ControlSettings(max_lag=max_lag, carry=carry)  # type: ignore[arg-type]
                    done, ratio = run(plan, lengths, engine, settings)
                    assert done.max_lag <= max_lag
                    results.append((ratio, done.mean_lag()))
                ratio, lag = np.mean(results, axis=0)
                cells.append(f"{ratio:.2f} ({lag:.1f})")
            print(f"| {engine}, {max_lag} | {' | '.join(cells)} |")
    print("\nRandom order; in brackets the mean lag.\n")


if __name__ == "__main__":
    main()
