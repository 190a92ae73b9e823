"""What are token budgets worth on true lengths, on a static engine?

Lengths are predicted in 5 folds by prompt, the plan is made from them, and its minibatches are
replayed on the recorded responses: heads stop at their budget, tails take what was cut. Utilisation
is useful tokens over slot-steps held, prefill of carried tokens paid for; time is device time by
the default cost model, prefill included.

    python benchmarks/token_budgets.py [ROLLOUTS.parquet]
"""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from held_out import lengths_of, models
from machine import heading

from rollout.carry import Carried, replay_carried
from rollout.replay import recorded_lengths
from stages.balance.config import BalanceConfig
from stages.balance.stage import balance
from stages.lengths.table import complete
from stages.partition.budgets import BudgetConfig
from stages.partition.config import PartitionConfig
from stages.partition.stage import partition

NUM_SAMPLES = 3
NO_BOUND = 1_000_000  # steps


@dataclass(frozen=True)
class Outcome:
    """A plan, and what became of it on recorded lengths."""

    expected_gain: float  # device time without budgets over device time with
    budgets: list[int]
    done: Carried
    prefill_cost: float
    slot_seconds: float
    num_prompts: int

    @property
    def utilization(self) -> float:
        """Useful over paid slot-steps."""
        return self.done.utilization(self.prefill_cost)

    @property
    def seconds(self) -> float:
        """Device time, prefill of carried tokens included."""
        return self.done.seconds + self.prefill_cost * self.done.prefilled * self.slot_seconds


def outcome(
    lengths: pl.DataFrame, profile: pl.DataFrame, config: PartitionConfig, scale: float = 1.0
) -> Outcome:
    """Plan with every sigma times `scale`, then replay."""
    wrong = lengths.with_columns(pl.col("sigma", "sample_sigma") * scale)
    derived = ["expected_tokens", "p50", "p90", "p_cap", "expected_longest"]
    minibatches, results = partition(complete(wrong.drop(derived)), config)
    budgets, window = results.get("token_budgets", []), results.get("tail_window", 1)
    assert isinstance(budgets, list)
    assert isinstance(window, int)
    groups, _ = balance(minibatches, BalanceConfig(), tail_window=window)
    num_slots = config.batch_size * NUM_SAMPLES
    model = config.cost_model
    done = replay_carried(groups, recorded_lengths(lengths, profile), model, num_slots)
    return Outcome(
        expected_gain=_gain(results),
        budgets=budgets,
        done=done,
        prefill_cost=config.budgets.prefill_cost or 0.0,
        slot_seconds=model.slot_seconds(num_slots),
        num_prompts=len(lengths),
    )


def _gain(results: dict[str, object]) -> float:
    """Device time without budgets over device time with, as the plan expects it."""
    without = results.get("device_seconds_without", 1.0)
    budgeted = results.get("device_seconds", 1.0)
    assert isinstance(without, float) and isinstance(budgeted, float)
    return without / budgeted


def with_budget(batch_size: int, prefill_cost: float, max_lag: int = NO_BOUND) -> PartitionConfig:
    """The default cut, with budgets."""
    budgets = BudgetConfig(max_lag=max_lag, prefill_cost=prefill_cost)
    return PartitionConfig(batch_size=batch_size, budgets=budgets)


def main() -> None:
    """Print the tables of each model: prefill cost, order and wrong sigma; then lag bounds."""
    print(heading("Token budgets on true lengths"))
    for model, profile in models():
        lengths = lengths_of(model, profile, 0, NUM_SAMPLES)
        print(f"## {model}: {len(lengths)} prompts, {len(profile)} responses\n")
        for batch_size in (8, 32):
            no_bound(lengths, profile, batch_size)
        lag_bounds(lengths, profile)


def no_bound(lengths: pl.DataFrame, profile: pl.DataFrame, batch_size: int) -> None:
    """Utilisation without a lag bound."""
    print(f"Utilisation, B = {batch_size}, no lag bound:\n")
    print("| prefill cost | no budgets | budgets | random order, budgets | sigma x 0.5 | x 2 |")
    print("|---|---|---|---|---|---|")
    for prefill_cost in (0.0, 0.02, 0.1, 1.0, 3.0):
        config = with_budget(batch_size, prefill_cost)
        cells = [
            outcome(lengths, profile, replace(config, budgets=BudgetConfig())),
            outcome(lengths, profile, config),
            outcome(lengths, profile, replace(config, method="random")),
            outcome(lengths, profile, config, 0.5),
            outcome(lengths, profile, config, 2.0),
        ]
        print(f"| {prefill_cost} | " + " | ".join(f"{c.utilization:.3f}" for c in cells) + " |")
    print()


def lag_bounds(lengths: pl.DataFrame, profile: pl.DataFrame) -> None:
    """Device time by lag bound: what was expected, and what came true."""
    print("Device time without budgets over with, B = 32, 8 minibatches a step:\n")
    print("| prefill cost | lag bound | budgets | expected | true | prompts cut | steps late |")
    print("|---|---|---|---|---|---|---|")
    for prefill_cost in (0.02, 0.1, 1.0):
        for max_lag in (0, 1, 2, 4, 8, NO_BOUND):
            config = with_budget(32, prefill_cost, max_lag)
            found = outcome(lengths, profile, config)
            without = outcome(lengths, profile, replace(config, budgets=BudgetConfig()))
            delays = list(found.done.delay.values()) or [0]
            bound = "none" if max_lag == NO_BOUND else max_lag
            print(
                f"| {prefill_cost} | {bound} | {', '.join(map(str, found.budgets)) or '-'} "
                f"| {found.expected_gain:.2f} | {without.seconds / found.seconds:.2f} "
                f"| {len(found.done.delay) / found.num_prompts:.2f} "
                f"| {np.mean(delays):.1f}, at most {max(delays)} |"
            )
    print()


if __name__ == "__main__":
    main()
