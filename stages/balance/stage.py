"""Which minibatches make a batch group, and in which order do the groups come?

In: minibatches. Out: groups. Minibatches are rearranged so that every group has about the same
predicted load, long and short together (ASP, arXiv 2611.08864, offline pass, step 3; the
algorithm is ours).

    asp balance minibatches.parquet --group-size 8 -o groups.parquet
"""

import math
from dataclasses import asdict, astuple, dataclass
from typing import Literal

import numpy as np
import polars as pl

from stages.balance import baselines, solver
from stages.balance.assign import assign, exchange
from stages.balance.order import order_groups, running_deviation
from stages.balance.placement import place
from stages.balance.problem import Ints, Problem
from stages.balance.split import split_to_fit
from stages.costs.model import CostModel
from stages.tables.derived import complete_minibatches
from stages.tables.errors import AspError, log
from stages.tables.io import Table, check_output, read_table, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Groups, Minibatches

LARGEST_LOAD = 1e200  # seconds or tokens; sums and products with prompts stay finite
Load = Literal["seconds", "tokens"]
Method = Literal["balanced", "sorted", "shuffled", "snake"]


@dataclass(frozen=True)
class BalanceConfig:
    """How to deal minibatches into groups: so many minibatches a group, or so many prompts."""

    group_size: int = 8  # minibatches a group; of no effect with prompts_per_group
    prompts_per_group: int | None = None  # exactly so many prompts a group: one train batch
    load: Load = "seconds"
    method: Method = "balanced"
    instance_speeds: tuple[float, ...] = ()  # of each instance; none: minibatches go to any
    epochs: int = 1  # passes over the prompts, each in its own order
    seed: int = 0  # of method shuffled, and of the epochs after the first


def balance(
    minibatches: pl.DataFrame, config: BalanceConfig, cost_model: CostModel | None = None
) -> tuple[pl.DataFrame, dict[str, object]]:
    """Deal the minibatches into groups and put everything in dispatch order.

    Args:
        minibatches: A minibatches table of heads alone.
        config: What to do.
        cost_model: Prices the parts of a minibatch that must be cut for an exact train batch.

    Returns:
        The groups table in dispatch order, and what is to be said of it.
    """
    epochs = [
        _one_epoch(minibatches, config, cost_model or CostModel(), epoch)
        for epoch in range(config.epochs)
    ]
    measured = [results for _, results in epochs]
    worst: dict[str, object] = {
        name: max(results[name] for results in measured) for name in measured[0]
    }
    return pl.concat([groups for groups, _ in epochs]), worst | {"num_epochs": config.epochs}


def _one_epoch(
    minibatches: pl.DataFrame, config: BalanceConfig, cost_model: CostModel, epoch: int
) -> tuple[pl.DataFrame, dict[str, float]]:
    """The first epoch rests on no chance; the others are drawn from the seed."""
    rng = np.random.default_rng([config.seed, epoch]) if epoch else None
    num_given = len(minibatches)
    problem = _problem(minibatches, config)
    order_b = _baseline_order(problem, config, epoch)
    group_b, bound = _group(problem, config, order_b, rng)
    if config.prompts_per_group is not None and problem.excess(group_b).any():
        minibatches, group_b = split_to_fit(
            minibatches, group_b, problem.excess(group_b), cost_model
        )
        problem = _problem(minibatches, config)
        order_b = _baseline_order(problem, config, epoch)
        bound = problem.bound()
        if config.method == "balanced":
            group_b, bound = solver.improve(problem, exchange(problem, group_b), bound)
    if config.method == "balanced":
        order_g = order_groups(problem, group_b, rng)
    else:
        order_g = np.arange(len(problem.capacity_g))
    results = {
        "num_minibatches": len(minibatches),
        "num_groups": len(order_g),
        "num_split": len(minibatches) - num_given,
        **_judge(problem, group_b, bound, config),
        "largest_running_deviation": _in_minibatches(problem, group_b, order_g),
    }
    if config.instance_speeds:
        instance_b, late = _place(problem, group_b, config)
        minibatches = minibatches.with_columns(instance=pl.Series(instance_b))
        results["latest_instance"] = late
    else:
        minibatches = minibatches.with_columns(instance=pl.lit(None, dtype=pl.Int64))
    if order_b is None:
        order_b = np.argsort(-minibatches["predicted_longest"].to_numpy(), kind="stable")
    return _in_dispatch_order(minibatches, group_b, order_g, order_b, epoch), results


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


def _judge(
    problem: Problem, group_b: Ints, bound: float, config: BalanceConfig
) -> dict[str, float]:
    """Imbalance, the bound on it, and the gap between them.

    A remainder of a few prompts still holds a whole longest response, far above its share; trainers
    that cut fixed batches drop it. So among groups of exact prompts only the full ones are judged.
    """
    is_full = problem.capacity_g == problem.capacity_g[0]
    if config.prompts_per_group is None or is_full.all():
        imbalance = problem.imbalance(group_b)
        return {
            "imbalance": imbalance,
            "imbalance_bound": bound,
            "gap": problem.gap(group_b, bound),
        }
    load_g = problem.loads(group_b)[is_full]
    imbalance = float(load_g.max() / load_g.mean() - 1) if load_g.any() else 0.0
    bound = _bound_among_full(problem)
    gap = max(0.0, (1 + imbalance) / (1 + bound) - 1)
    return {"imbalance": imbalance, "imbalance_bound": bound, "gap": gap}


def _bound_among_full(problem: Problem) -> float:
    """The heaviest minibatch, filled up at the lowest load per prompt, over the largest mean.

    None where it fits the remainder, which is not judged.
    """
    heaviest = int(np.argmax(problem.load_b))
    size, (full, rest) = problem.weight_b[heaviest], problem.capacity_g[[0, -1]]
    if not problem.load_b.any() or not rest < size <= full:
        return 0.0
    fill = (problem.load_b / problem.weight_b).min()
    largest_mean = problem.load_b.sum() / (len(problem.capacity_g) - 1)
    filled = problem.load_b[heaviest] + fill * (full - size)
    return max(0.0, float(filled / largest_mean) - 1)


def _problem(minibatches: pl.DataFrame, config: BalanceConfig) -> Problem:
    load_b = minibatches[f"predicted_{config.load}"].to_numpy().astype(np.float64)
    if load_b.max() > LARGEST_LOAD:
        raise AspError(
            f"the minibatches table: column 'predicted_{config.load}' holds {load_b.max():g}, "
            f"which is above {LARGEST_LOAD:g} and cannot be added up; correct it"
        )
    if config.prompts_per_group is None:
        weight_b, capacity = np.ones(len(load_b), dtype=np.int64), config.group_size
    else:
        weight_b, capacity = minibatches["num_prompts"].to_numpy(), config.prompts_per_group
    full, rest = divmod(int(weight_b.sum()), capacity)
    return Problem(load_b, weight_b, np.array([capacity] * full + [rest] * (rest > 0)))


def _baseline_order(problem: Problem, config: BalanceConfig, epoch: int) -> Ints | None:
    """The order of minibatches that a baseline stands for; None: longest first in each group."""
    match config.method:
        case "sorted":
            return baselines.sorted_order(problem)
        case "shuffled":
            return baselines.shuffled_order(problem, config.seed + epoch)
        case _:
            return None


def _group(
    problem: Problem,
    config: BalanceConfig,
    order_b: Ints | None,
    rng: np.random.Generator | None,
) -> tuple[Ints, float]:
    """Group of each minibatch, and a bound on the imbalance of any assignment."""
    bound = problem.bound()
    if order_b is not None:
        return baselines.fill(problem, order_b), bound
    if config.method == "snake":
        return baselines.snake_groups(problem), bound
    return solver.improve(problem, assign(problem, rng), bound)


def _in_minibatches(problem: Problem, group_b: Ints, order_g: Ints) -> float:
    """Largest distance of the running load from the mean line, in largest minibatches."""
    largest = float(problem.load_b.max())
    deviation = running_deviation(problem, group_b, order_g)
    return float(np.abs(deviation).max()) / largest if largest else 0.0


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


def run(source: str, output: str, config: BalanceConfig, force: bool = False) -> None:
    """Read minibatches, deal and order them, write groups, say what came out."""
    check_output(output, force)
    table = read_table(source, Minibatches, complete_minibatches)
    if (table.frame["kind"].cast(pl.String) == "tail").any():
        raise AspError(f"{table.name}: holds tail rows, which balance cannot place; remove them")
    groups, results = balance(table.frame, config, _cost_model(table))
    _report(table.frame, results, config)
    provenance = Provenance(
        stage="balance",
        schema="groups/1",
        config=asdict(config),
        seed=config.seed,
        results=results,
        inputs=(Input("minibatches", table.sha256, table.provenance),),
    )
    write_table(groups, Groups, output, provenance, force)


def _cost_model(table: Table) -> CostModel:
    """The cost model that partition used, if the file tells."""
    origin = table.provenance.ancestor("partition") if table.provenance else None
    try:
        model = CostModel(**origin.config["cost_model"]) if origin else CostModel()
        is_usable = all(0 <= float(value) < math.inf for value in astuple(model))
    except (KeyError, TypeError, ValueError):
        is_usable = False
    return model if is_usable else CostModel()


def _report(minibatches: pl.DataFrame, results: dict[str, object], config: BalanceConfig) -> None:
    num_prompts = int(minibatches["num_prompts"].sum())
    if "latest_instance" in results:
        log.info(
            "%d instances: in the worst group the last finishes %.3f%% after the bound",
            len(config.instance_speeds), 100 * float(results["latest_instance"]),  # type: ignore[arg-type]
        )  # fmt: skip
    if config.prompts_per_group is None and config.group_size > len(minibatches):
        log.warning(
            "--group-size %d is above the %d minibatches: they make one group",
            config.group_size, len(minibatches),
        )  # fmt: skip
    if config.prompts_per_group is not None and config.prompts_per_group > num_prompts:
        log.warning(
            "--prompts-per-group %d is above the %d prompts: they make one smaller group",
            config.prompts_per_group, num_prompts,
        )  # fmt: skip
    if results["num_split"]:
        log.info("%d minibatches were cut in two to fill train batches", results["num_split"])
    percent = {name: 100 * float(results[name]) for name in ("imbalance", "imbalance_bound", "gap")}  # type: ignore[arg-type]
    log.info(
        "%s%d minibatches in %d groups, largest %s %.3f%% above its share (no grouping is below "
        "%.3f%%; gap %.3f%%)",
        f"{config.epochs} epochs of " if config.epochs > 1 else "",
        results["num_minibatches"],
        results["num_groups"],
        config.load,
        *percent.values(),
    )
