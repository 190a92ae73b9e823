"""One pass over the prompts: its groups in their order, and how good they are."""

import numpy as np
import polars as pl

from stages.balance import baselines
from stages.balance.bias import length_bias, stratum_bias
from stages.balance.config import BalanceConfig
from stages.balance.order import least_running_deviation, order_groups, running_deviation
from stages.balance.placement import place
from stages.balance.policies import Dealing, deal
from stages.balance.problem import Ints, Problem
from stages.balance.split import Cutter, numbered
from stages.balance.strata import count_strata
from stages.balance.waiting import least_mean_longest, longest_first, mean_longest

Results = dict[str, float]


def one_epoch(
    minibatches: pl.DataFrame, config: BalanceConfig, cutter: Cutter, epoch: int
) -> tuple[pl.DataFrame, Results]:
    """The groups table of an epoch, and its figures. The first one rests on no chance."""
    rng = np.random.default_rng([config.seed, epoch]) if epoch else None
    dealing = deal(minibatches, config, cutter, rng, epoch)
    problem, group_b = dealing.problem, dealing.group_b
    table = numbered(dealing.minibatches)
    if config.method is None:
        order_g = order_groups(problem, group_b, rng)
    else:
        order_g = np.arange(len(problem.capacity_g))
    results: Results = {
        "num_minibatches": len(table),
        "num_groups": len(order_g),
        "num_long_groups": dealing.num_long_groups,
        "num_split": len(table) - len(minibatches),
        "load_added": _added(config.problem(minibatches), problem),
        **_judge(dealing, config),
        **_running(problem, group_b, order_g),
        **_bias(dealing, config),
    }
    instance = pl.lit(None, dtype=pl.Int64)
    if config.instance_speeds:
        instance_b, results["latest_instance"] = _place(problem, group_b, config)
        instance = pl.lit(pl.Series(instance_b))
    table = table.with_columns(instance=instance)
    order_b = _order_inside(dealing, config, epoch)
    return _in_dispatch_order(table, group_b, order_g, order_b, epoch), results


def _added(before: Problem, after: Problem) -> float:
    """Load that cutting adds, relative to all."""
    total = float(before.load_b.sum())
    return float(after.load_b.sum()) / total - 1 if total else 0.0


def _judge(dealing: Dealing, config: BalanceConfig) -> Results:
    """Both objectives with their bounds, and how far the policy's own one is from its bound."""
    longest_b = dealing.minibatches["predicted_longest"].to_numpy()
    problem = dealing.problem
    waiting = mean_longest(longest_b, dealing.group_b, len(problem.capacity_g))
    least = least_mean_longest(longest_b, problem)
    if config.method is None and config.policy == "like":
        gap = waiting / least - 1 if least else 0.0
    else:
        gap = (1 + dealing.imbalance) / (1 + dealing.imbalance_bound) - 1
    return {
        "imbalance": dealing.imbalance,
        "imbalance_bound": dealing.imbalance_bound,
        "mean_longest": waiting,
        "mean_longest_bound": least,
        "gap": max(0.0, gap),
    }


def _running(problem: Problem, group_b: Ints, order_g: Ints) -> Results:
    """Largest distance of the running load from the mean line, in largest minibatches."""
    largest = float(problem.load_b.max()) or 1.0
    deviation = running_deviation(problem, group_b, order_g)
    return {
        "largest_running_deviation": float(np.abs(deviation).max()) / largest,
        "running_deviation_bound": least_running_deviation(problem, group_b) / largest,
    }


def _bias(dealing: Dealing, config: BalanceConfig) -> Results:
    """Distance of the full groups' lengths and strata from the whole's, and what chance gives."""
    table, capacity_g = dealing.minibatches, dealing.problem.capacity_g
    is_full = capacity_g == capacity_g[0]
    tokens_b = (table["predicted_tokens"] / table["num_samples"].clip(lower_bound=1)).to_numpy()
    size_b = table["num_prompts"].to_numpy()
    measured = {"length_bias": length_bias(tokens_b, size_b, dealing.group_b, is_full, config.seed)}
    if config.stratify is not None:
        count_bs = count_strata(table[config.stratify])
        measured["stratum_bias"] = stratum_bias(count_bs, dealing.group_b, is_full, config.seed)
    return {
        f"{name}_{field}": value
        for name, bias in measured.items()
        for field, value in bias._asdict().items()
    }


def _place(problem: Problem, group_b: Ints, config: BalanceConfig) -> tuple[Ints, float]:
    """Instance of each minibatch; how far the worst group's last one is above its bound."""
    instance_b = np.empty(len(group_b), dtype=np.int64)
    speed_i, late = np.array(config.instance_speeds), 0.0
    for g in range(len(problem.capacity_g)):
        inside = np.flatnonzero(group_b == g)
        placement = place(problem.load_b[inside], speed_i)
        instance_b[inside] = placement.instance_b
        if placement.bound:
            late = max(late, placement.seconds / placement.bound - 1)
    return instance_b, late


def _order_inside(dealing: Dealing, config: BalanceConfig, epoch: int) -> Ints:
    """The order of minibatches within their groups: the baseline's own, else longest first."""
    if config.method is not None:
        order_b = baselines.order(dealing.problem, config.method, config.seed + epoch)
        if order_b is not None:
            return order_b
    return longest_first(dealing.minibatches["predicted_longest"].to_numpy())


def _in_dispatch_order(
    minibatches: pl.DataFrame, group_b: Ints, order_g: Ints, order_b: Ints, epoch: int
) -> pl.DataFrame:
    """Groups as in order_g, the minibatches of each as in order_b."""
    place_g = np.empty(len(order_g), dtype=np.int64)
    place_g[order_g] = np.arange(len(order_g))
    group_id = place_g[group_b]
    order = order_b[np.argsort(group_id[order_b], kind="stable")]
    return minibatches[order].with_columns(
        group_id=pl.Series(group_id[order]),
        position=pl.int_range(pl.len(), dtype=pl.Int64),
        epoch=pl.lit(epoch, dtype=pl.Int64),
    )
