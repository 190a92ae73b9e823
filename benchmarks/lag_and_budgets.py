"""What are order and token budgets worth at a given lag bound?

Iteration time over max(generation at full slots, training), on recorded lengths: 8 actors of 24
slots, a step of 128 prompts x 3 samples in minibatches of 8 prompts, a decode step of 1 + 0.004 x
sequences, training 0.6 of generation at full slots, no cost of refresh; a carried token is
prefilled again at 0.02 of a slot's decode step. Steps are consumed in dispatch order. Predictions
are made in 5 folds by prompt. Three tables a model: order alone; budgets at quantiles of the true
lengths, in random order, a tail a round and step; schedules as `asp partition` and `asp balance`
make them, with the budgets and the tails that they plan from the predictions.

    python benchmarks/lag_and_budgets.py [ROLLOUTS.parquet [NUM_SEEDS]]
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from held_out import lengths_of, profile_of
from machine import heading

from rollout.control.plan import Plan
from rollout.control.schedule import plan_of
from rollout.control.settings import Carry, ControlSettings
from rollout.control.uniform import uniform_plan
from rollout.simulator.cluster import Cluster, Engine, GenerationUnit, TrainingUnit
from rollout.simulator.run import Run
from rollout.simulator.simulate import simulate
from rollout.simulator.workload import workload_of
from stages.balance.stage import BalanceConfig, balance
from stages.costs.model import CostModel
from stages.partition.budgets import BudgetConfig
from stages.partition.config import Method, PartitionConfig
from stages.partition.stage import partition
from stages.tables.derived import complete_groups
from stages.tables.io import conform
from stages.tables.schemas import Groups

LAG_BOUNDS = (0, 1, 4)
NUM_ACTORS, SLOTS, SAMPLES = 8, 24, 3
MINIBATCH, MINIBATCHES = 8, 16  # prompts a minibatch, minibatches a step
PREFILL = 0.02  # decode steps of a slot
SLOT = 1.0 / SLOTS + 0.004  # seconds of a token at full slots
STEP = CostModel(step_seconds=1.0, sequence_seconds=0.004, prefill_seconds=PREFILL * SLOT)
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
    mixed_order: list[int] = np.concatenate(mixed).tolist()
    return mixed_order


def _like_together(order: np.ndarray, rng: np.random.Generator) -> list[int]:
    """Groups of neighbours, in random order."""
    size = MINIBATCH * MINIBATCHES
    whole = order[: len(order) // size * size].reshape(-1, size)
    mixed_order: list[int] = np.concatenate(rng.permutation(whole)).tolist()
    return mixed_order


def run(
    plan: Plan, lengths: list[list[int]], engine: Engine, settings: ControlSettings
) -> tuple[Run, float]:
    """A run, and its iteration time over the bound."""
    training = TrainingUnit(num_devices=1, token_device_seconds=0.6 * SLOT / NUM_ACTORS)
    cluster = Cluster(
        (GenerationUnit(NUM_ACTORS, 1, SLOTS),), training, STEP, engine, reload_seconds=0.0
    )
    done = simulate(plan, workload_of(plan, lengths.__getitem__), cluster, settings)
    tokens = sum(sum(lengths[prompt]) for prompt in plan.prompt_g)
    return done, done.seconds / (tokens * SLOT / NUM_ACTORS)


def whole_steps(prompts: list[int]) -> list[int]:
    """Without the remainder."""
    return prompts[: len(prompts) // (MINIBATCH * MINIBATCHES) * MINIBATCH * MINIBATCHES]


def models(rollouts: pl.DataFrame) -> Iterator[tuple[str, list[list[int]], pl.DataFrame]]:
    """Model, lengths of 3 samples a prompt, and what was predicted, prompts numbered on."""
    for (model,), part in rollouts.group_by("model", maintain_order=True):
        profile = profile_of(part)
        predicted = lengths_of(str(model), profile, 0, SAMPLES)
        observed = profile.group_by("prompt_id").agg("response_tokens")
        known = (
            predicted.join(observed, on="prompt_id")
            .filter(pl.col("response_tokens").list.len() >= SAMPLES)
            .sort("prompt_id")
        )
        lengths = [[max(1, tokens) for tokens in row[:SAMPLES]] for row in known["response_tokens"]]
        numbered = known.drop("response_tokens").with_columns(
            prompt_id=pl.int_range(pl.len(), dtype=pl.Int64)
        )
        yield str(model), lengths, numbered


def main() -> None:
    """Print the tables of each model."""
    default = Path(__file__).parent.parent / "sample_data/rollouts.parquet"
    rollouts = pl.read_parquet(sys.argv[1] if len(sys.argv) > 1 else default)
    num_seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print(heading("Iteration time over max(generation at full slots, training)"))
    for model, lengths, predicted in models(rollouts):
        print(f"## {model}: {len(lengths)} prompts\n")
        print_orders(lengths, predicted["expected_longest"].to_numpy(), num_seeds)
        print_budgets(lengths, num_seeds)
        print_schedules(lengths, predicted, num_seeds)


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


def scheduled(lengths: pl.DataFrame, max_lag: int, method: Method, seed: int) -> Plan:
    """What partition and balance make of the predictions, with tails where they pay."""
    config = PartitionConfig(
        MINIBATCH, 0.0, SAMPLES, method=method, seed=seed, cost_model=STEP,
        budgets=BudgetConfig(max_lag, prefill_cost=PREFILL, group_size=MINIBATCHES),
    )  # fmt: skip
    minibatches, results = partition(lengths, config)
    window = results.get("tail_window", 1)
    assert isinstance(window, int)
    deal = BalanceConfig(MINIBATCHES, epochs=1, seed=seed)
    groups, _ = balance(minibatches, deal, STEP, window)
    return plan_of(conform(groups, Groups, "groups", complete_groups))


def print_schedules(lengths: list[list[int]], predicted: pl.DataFrame, num_seeds: int) -> None:
    """The schedule without budgets, with them, restarted; a random cut with budgets."""
    ways: dict[str, tuple[Method, Carry, bool]] = {
        "no budgets": ("exact", "tokens", False),
        "budgets": ("exact", "tokens", True),
        "budgets, restart": ("exact", "restart", True),
        "random, no budgets": ("random", "tokens", False),
        "random, budgets": ("random", "tokens", True),
    }
    print(f"| engine, lag bound | {' | '.join(ways)} | budgets gain | rounds |")
    print("|---" * (len(ways) + 3) + "|")
    for engine in ("static", "continuous"):
        for max_lag in LAG_BOUNDS:
            cells, means, num_rounds = [], {}, {}
            for name, (method, carry, has_budgets) in ways.items():
                # A group that is restarted may join the next step whatever the bound.
                planned = max(max_lag, carry == "restart") if has_budgets else 0
                results = []
                for seed in range(num_seeds):
                    order = np.random.default_rng(seed).permutation(len(lengths)).tolist()
                    kept = predicted[sorted(whole_steps(order))]
                    plan = scheduled(kept, planned, method, seed)
                    settings = ControlSettings(max_lag=max_lag, carry=carry)
                    done, ratio = run(plan, lengths, engine, settings)
                    assert done.max_lag <= max_lag
                    results.append((ratio, done.mean_lag(), plan.num_rounds))
                ratio, lag, rounds = np.mean(results, axis=0)
                means[name] = ratio
                cells.append(f"{ratio:.2f} ({lag:.1f})")
                num_rounds[name] = rounds
            gain = means["no budgets"] / means["budgets"]
            verdict = f"{gain:.2f}x" if gain >= 1 else f"{gain:.2f}x, a loss"
            print(f"| {engine}, {max_lag} | {' | '.join(cells)} | {verdict} "
                  f"| {num_rounds['budgets']:.0f} |")  # fmt: skip
    print("\nAs partition and balance plan for that bound; in brackets the mean lag.\n")


if __name__ == "__main__":
    main()
