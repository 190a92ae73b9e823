"""What would a schedule have gained on lengths that were really observed?

In: a schedule, its lengths table, a profile with the recorded responses of the same prompts.
The schedule is replayed beside random order, prompts sorted by expected length with fixed sizes,
and the schedule that the same settings give when every prompt's mean and longest are known. No
prediction enters the measures: they are computed on the recorded lengths alone.

    asp report schedule.parquet --lengths lengths.parquet --profile observed.parquet
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.balance.problem import Problem
from stages.balance.stage import BalanceConfig, balance
from stages.costs.model import CostModel
from stages.lengths import table as lengths_table
from stages.partition.stage import PartitionConfig, partition

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Plan = list[list[Ints]]  # groups of minibatches of prompt ids, in dispatch order

NUM_SHUFFLES = 20  # random orders replayed; their spread says what counts as a gain


@dataclass(frozen=True)
class ReplayConfig:
    """Settings of the replay; those of the schedule come with its file."""

    partition: PartitionConfig
    balance: BalanceConfig
    slots: int = 256  # responses decoded at once by all instances together, continuous batching
    seed: int = 0


@dataclass(frozen=True)
class Measures:
    """What one order of the prompts costs on the recorded lengths."""

    utilization: float  # useful over paid slot-steps of static minibatches
    imbalance: float  # largest group's static seconds over its share by size, less 1
    step: float  # mean decode steps of a synchronous step, one group, under continuous batching


def measure(plan: Plan, samples: Mapping[int, Ints], config: ReplayConfig) -> Measures:
    """Replay a plan on recorded lengths [tokens]; prompts without any are passed over.

    A synchronous step generates one group: its responses start in dispatch order as slots fall
    free, one token a decode step, and the step ends with its last response. All decode steps
    count alike.
    """
    cost_model = CostModel()
    useful = paid = 0
    seconds_g, weight_g, steps_g = [], [], []
    for group in plan:
        seconds, responses = 0.0, []
        for minibatch in group:
            recorded = [samples[p] for p in minibatch.tolist() if p in samples]
            if not recorded:
                continue
            lengths = np.concatenate(recorded)
            useful += int(lengths.sum())
            paid += len(lengths) * int(lengths.max())
            seconds += cost_model.minibatch_seconds(float(lengths.max()), float(len(lengths)))
            responses.append(lengths)
        if responses:
            seconds_g.append(seconds)
            by_prompts = config.balance.prompts_per_group is not None
            weight_g.append(sum(map(len, group)) if by_prompts else len(group))
            steps_g.append(decode_steps(np.concatenate(responses).tolist(), config.slots))
    return Measures(
        utilization=useful / paid if paid else 1.0,
        imbalance=_imbalance(np.array(seconds_g), np.array(weight_g), config),
        step=float(np.mean(steps_g)),
    )


def _imbalance(seconds_g: Floats, weight_g: Ints, config: ReplayConfig) -> float:
    """Largest load over its share by size, less 1; of exact train batches the full ones alone."""
    if config.balance.prompts_per_group is not None:
        is_full = weight_g == weight_g.max()
        seconds_g, weight_g = seconds_g[is_full], weight_g[is_full]
    return Problem(seconds_g, weight_g, weight_g).imbalance(np.arange(len(seconds_g)))


def decode_steps(lengths: Iterable[int], slots: int) -> int:
    """Steps until all responses are done, each started in the slot that is free first."""
    busy: list[int] = []
    for length in lengths:
        start = heapq.heappop(busy) if len(busy) == slots else 0
        heapq.heappush(busy, start + length)
    return max(busy, default=0)


def plan_of(groups: pl.DataFrame) -> Plan:
    """The first epoch of a groups or schedule table as groups of minibatches of prompt ids."""
    epoch = groups.filter(pl.col("epoch") == groups["epoch"].min()).sort("position")
    return [
        [np.array(ids, dtype=np.int64) for ids in group["prompt_ids"].to_list()]
        for group in epoch.partition_by("group_id", maintain_order=True)
    ]


def compare(
    schedule: pl.DataFrame, lengths: pl.DataFrame, profile: pl.DataFrame, config: ReplayConfig
) -> dict[str, list[Measures]]:
    """Replay random orders, sorted, the schedule and the perfect predictor's schedule.

    Args:
        schedule: A groups or schedule table.
        lengths: The complete lengths table that it was made from.
        profile: Recorded responses; joined by prompt_hash where the lengths have it, else by
            prompt_id.
        config: Settings; partition and balance as for the schedule.
    """
    samples = recorded_lengths(lengths, profile)
    config = replace(config, balance=replace(config.balance, epochs=1))

    def replayed(cut: PartitionConfig, deal: BalanceConfig) -> Measures:
        groups, _ = balance(partition(lengths, cut)[0], deal)
        return measure(plan_of(groups), samples, config)

    shuffles = [
        replayed(
            replace(config.partition, method="random", seed=config.seed + shuffle),
            replace(config.balance, method="shuffled", seed=config.seed + shuffle),
        )
        for shuffle in range(NUM_SHUFFLES)
    ]
    return {
        "random": shuffles,
        "sorted": [
            replayed(
                replace(config.partition, method="fixed", by="expected"),
                replace(config.balance, method="sorted"),
            )
        ],
        "schedule": [measure(plan_of(schedule), samples, config)],
        "perfect": [measure(perfect_plan(lengths, samples, config), samples, config)],
    }


def recorded_lengths(lengths: pl.DataFrame, profile: pl.DataFrame) -> dict[int, Ints]:
    """Recorded response lengths [tokens] of each prompt that has any."""
    key = "prompt_hash" if lengths["prompt_hash"].null_count() == 0 else "prompt_id"
    observed = profile.group_by(pl.col(key).alias("key")).agg("response_tokens")
    joined = lengths.select("prompt_id", pl.col(key).alias("key")).join(observed, on="key")
    return {
        prompt_id: np.array(tokens, dtype=np.int64)
        for prompt_id, tokens in joined.select("prompt_id", "response_tokens").iter_rows()
    }


def perfect_plan(lengths: pl.DataFrame, samples: Mapping[int, Ints], config: ReplayConfig) -> Plan:
    """The plan that the same settings give when each prompt's mean and longest are known.

    Prompts are sorted by their longest, which is what a minibatch waits for. Those without a
    recorded response keep their prediction.
    """
    known = pl.DataFrame(
        {
            "prompt_id": list(samples),
            "mu": [float(np.log(max(tokens.mean(), 1.0))) for tokens in samples.values()],
            "expected_longest": [float(tokens.max()) for tokens in samples.values()],
        },
        schema_overrides={"prompt_id": pl.Int64},
    ).with_columns(sigma=pl.lit(0.0), sample_sigma=pl.lit(0.0))
    kept = ["prompt_id", "prompt_hash", "cap", "samples_per_prompt", *known.columns[1:]]
    perfect = lengths_table.complete(lengths.select(kept).update(known, on="prompt_id"))
    minibatches, _ = partition(perfect, replace(config.partition, by="longest"))
    longest_of = dict(perfect.select("prompt_id", "expected_longest").iter_rows())
    longest = np.array([max(longest_of[p] for p in ids) for ids in minibatches["prompt_ids"]])
    seconds = CostModel().minibatch_seconds(
        longest, minibatches["num_samples"].to_numpy().astype(np.float64)
    )
    minibatches = minibatches.with_columns(
        predicted_longest=pl.Series(longest), predicted_seconds=pl.Series(seconds)
    )
    return plan_of(balance(minibatches, config.balance)[0])
