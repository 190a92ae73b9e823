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

from rollout.carry import replay_carried
from rollout.orders import perfect_groups, shuffled_groups, sorted_groups
from stages.balance.problem import Problem
from stages.balance.stage import BalanceConfig
from stages.partition.config import PartitionConfig
from stages.tables.schemas import IS_HEAD
from stages.tables.utilization import utilization

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
    prefill_cost: float = 0.0  # of a carried token, over one decode step of one slot
    seed: int = 0


@dataclass(frozen=True)
class Measures:
    """What one order of the prompts costs on the recorded lengths."""

    utilization: float  # useful over paid slot-steps of static minibatches
    imbalance: float  # largest group's static seconds over its share by size, less 1
    step: float  # mean decode steps of a synchronous step, one group, under continuous batching


def measure(
    plan: Plan,
    samples: Mapping[int, Ints],
    config: ReplayConfig,
    prompt_tokens: Mapping[int, int] | None = None,
) -> Measures:
    """Replay a plan on recorded lengths [tokens]; prompts without any are passed over.

    The lengths of the prompts count where the cost model says so; unknown ones are 0.

    A synchronous step generates one group: its responses start in dispatch order as slots fall
    free, one token a decode step, and the step ends with its last response. All decode steps
    count alike.
    """
    cost_model, prompt_tokens = config.partition.cost_model, prompt_tokens or {}
    useful = paid = 0
    seconds_g, weight_g, steps_g = [], [], []
    for group in plan:
        seconds, responses = 0.0, []
        for minibatch in group:
            recorded = [p for p in minibatch.tolist() if p in samples]
            if not recorded:
                continue
            lengths = np.concatenate([samples[p] for p in recorded])
            useful += int(lengths.sum())
            paid += len(lengths) * int(lengths.max())
            held = sum(len(samples[p]) * prompt_tokens.get(p, 0) for p in recorded)
            seconds += cost_model.minibatch_seconds(
                float(lengths.max()), float(len(lengths)), float(held)
            )
            responses.append(lengths)
        if responses:
            seconds_g.append(seconds)
            by_prompts = config.balance.prompts_per_group is not None
            weight_g.append(sum(map(len, group)) if by_prompts else len(group))
            steps_g.append(decode_steps(np.concatenate(responses).tolist(), config.slots))
    return Measures(
        utilization=float(utilization(float(useful), float(paid))),
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
    epoch = _first_epoch(groups).filter(IS_HEAD)
    return [
        [np.array(ids, dtype=np.int64) for ids in group["prompt_ids"].to_list()]
        for group in epoch.partition_by("group_id", maintain_order=True)
    ]


def _first_epoch(groups: pl.DataFrame) -> pl.DataFrame:
    """Its rows in dispatch order."""
    return groups.filter(pl.col("epoch") == groups["epoch"].min()).sort("position")


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
    prompt_tokens = dict(lengths.select("prompt_id", "prompt_tokens").drop_nulls().iter_rows())
    config = replace(config, balance=replace(config.balance, epochs=1))

    def measured(plan: Plan) -> Measures:
        return measure(plan, samples, config, prompt_tokens)

    cut, deal = config.partition, config.balance
    shuffles = [
        measured(plan_of(shuffled_groups(lengths, cut, deal, config.seed + shuffle)))
        for shuffle in range(NUM_SHUFFLES)
    ]
    return {
        "random": shuffles,
        "sorted": [measured(plan_of(sorted_groups(lengths, cut, deal)))],
        "schedule": [_with_budgets(measured(plan_of(schedule)), schedule, samples, config)],
        "perfect": [measured(plan_of(perfect_groups(lengths, samples, cut, deal)))],
    }


def _with_budgets(
    measures: Measures, schedule: pl.DataFrame, samples: Mapping[int, Ints], config: ReplayConfig
) -> Measures:
    """The utilisation that the schedule's token budgets bring; the other measures know of none."""
    if "token_budget" not in schedule.columns or not schedule["token_budget"].count():
        return measures
    epoch = _first_epoch(schedule)
    heads = epoch.filter(IS_HEAD)
    per_prompt = float((heads["num_samples"] / heads["num_prompts"]).max())  # type: ignore[arg-type]
    num_slots = max(1, round(config.partition.batch_size * per_prompt))
    done = replay_carried(epoch, samples, config.partition.cost_model, num_slots)
    return replace(measures, utilization=done.utilization(config.prefill_cost))


def recorded_lengths(lengths: pl.DataFrame, profile: pl.DataFrame) -> dict[int, Ints]:
    """Recorded response lengths [tokens] of each prompt that has any."""
    key = "prompt_hash" if lengths["prompt_hash"].null_count() == 0 else "prompt_id"
    observed = profile.group_by(pl.col(key).alias("key")).agg("response_tokens")
    joined = lengths.select("prompt_id", pl.col(key).alias("key")).join(observed, on="key")
    return {
        prompt_id: np.array(tokens, dtype=np.int64)
        for prompt_id, tokens in joined.select("prompt_id", "response_tokens").iter_rows()
    }
