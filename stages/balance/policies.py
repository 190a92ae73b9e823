"""Which minibatches make a batch group?

- balanced: long and short together, so that all groups have about the same load. The largest load
  over the mean is within the stated gap of a bound.
- like: like lengths together. The sum over the groups of their longest response, for which a
  synchronous step waits, is the least possible (`waiting.py`).
- isolate: a few groups of the longest, chosen as `like` would; all others balanced.
"""

from typing import NamedTuple

import numpy as np
import polars as pl

from stages.balance import baselines, solver
from stages.balance.assign import assign, exchange
from stages.balance.config import BalanceConfig, Baseline
from stages.balance.cutting import WORTH_A_CUT, cut_to_balance
from stages.balance.problem import Ints, Problem
from stages.balance.split import Cutter, split_in_order, split_to_fit
from stages.balance.strata import spread_strata
from stages.balance.waiting import longest_first, num_long_groups

Rng = np.random.Generator | None


class Dealing(NamedTuple):
    """Group of each minibatch, of a table in which some may have been cut."""

    minibatches: pl.DataFrame
    problem: Problem
    group_b: Ints
    imbalance: float  # among the groups that are to have equal loads
    imbalance_bound: float
    num_long_groups: int = 0  # set apart, numbered first


def deal(
    minibatches: pl.DataFrame, config: BalanceConfig, cutter: Cutter, rng: Rng, epoch: int
) -> Dealing:
    """Deal by the baseline, else by the policy."""
    if config.method is not None:
        return baseline(minibatches, config, cutter, config.method, epoch)
    if config.policy == "like":
        return like(minibatches, config, cutter)
    if config.policy == "isolate":
        return isolate(minibatches, config, cutter, rng)
    return balanced(minibatches, config, cutter, rng)


def balanced(
    minibatches: pl.DataFrame, config: BalanceConfig, cutter: Cutter, rng: Rng = None
) -> Dealing:
    """Groups of equal load, and where asked with an even share of each stratum."""
    problem = config.problem(minibatches)
    group_b, bound = solver.improve(problem, assign(problem, rng), problem.bound())
    if config.prompts_per_group is not None:
        excess_g = problem.excess(group_b)
        if excess_g.any():
            minibatches, group_b = split_to_fit(minibatches, group_b, excess_g, cutter)
            problem, group_b, bound = _settle(minibatches, group_b, config)
        if problem.gap(group_b, bound) > WORTH_A_CUT:
            minibatches, group_b = cut_to_balance(
                minibatches, problem, group_b, f"predicted_{config.load}", cutter
            )
            problem, group_b, bound = _settle(minibatches, group_b, config)
    if config.stratify is not None:
        group_b = spread_strata(problem, group_b, minibatches[config.stratify], bound, rng)
    return Dealing(minibatches, problem, group_b, problem.imbalance(group_b), bound)


def _settle(
    minibatches: pl.DataFrame, group_b: Ints, config: BalanceConfig
) -> tuple[Problem, Ints, float]:
    """The problem once minibatches were cut, with its groups exchanged anew, and its bound."""
    problem = config.problem(minibatches)
    return problem, exchange(problem, group_b), problem.bound()


def like(minibatches: pl.DataFrame, config: BalanceConfig, cutter: Cutter) -> Dealing:
    """Groups of consecutive minibatches in length order, the remainder the shortest."""
    problem = config.problem(minibatches)
    minibatches, group_b = _in_order(minibatches, problem.capacity_g, config, cutter)
    problem = config.problem(minibatches)
    return Dealing(minibatches, problem, group_b, problem.imbalance(group_b), problem.bound())


def isolate(
    minibatches: pl.DataFrame, config: BalanceConfig, cutter: Cutter, rng: Rng = None
) -> Dealing:
    """The longest minibatches in as few groups as save half of what `like` saves; balanced rest."""
    problem = config.problem(minibatches)
    num_long = num_long_groups(minibatches["predicted_longest"].to_numpy(), problem)
    if not num_long:
        return balanced(minibatches, config, cutter, rng)
    long_g, rest_g = np.split(problem.capacity_g, [num_long])
    minibatches, group_b = _in_order(minibatches, np.append(long_g, rest_g.sum()), config, cutter)
    is_long = group_b < num_long
    rest = balanced(minibatches.filter(~is_long), config, cutter, rng)
    minibatches = pl.concat([minibatches.filter(is_long), rest.minibatches])
    return rest._replace(
        minibatches=minibatches,
        problem=config.problem(minibatches),
        group_b=np.concatenate((group_b[is_long], num_long + rest.group_b)),
        num_long_groups=num_long,
    )


def _in_order(
    minibatches: pl.DataFrame, capacity_g: Ints, config: BalanceConfig, cutter: Cutter
) -> tuple[pl.DataFrame, Ints]:
    """Fill the groups one after the other, longest minibatches first."""
    order_b = longest_first(minibatches["predicted_longest"].to_numpy())
    if config.prompts_per_group is not None:
        return split_in_order(minibatches, order_b, capacity_g, cutter)
    return minibatches, baselines.fill(np.ones(len(minibatches), dtype=int), capacity_g, order_b)


def baseline(
    minibatches: pl.DataFrame, config: BalanceConfig, cutter: Cutter, method: Baseline, epoch: int
) -> Dealing:
    """Groups of a naive way."""
    problem = config.problem(minibatches)
    order_b = baselines.order(problem, method, config.seed + epoch)
    if order_b is None:
        group_b = baselines.snake_groups(problem)
    else:
        group_b = baselines.fill(problem.weight_b, problem.capacity_g, order_b)
    if config.prompts_per_group is not None and problem.excess(group_b).any():
        minibatches, group_b = split_to_fit(minibatches, group_b, problem.excess(group_b), cutter)
        problem = config.problem(minibatches)
    return Dealing(minibatches, problem, group_b, problem.imbalance(group_b), problem.bound())
