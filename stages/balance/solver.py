"""The same assignment by CP-SAT, for problems small enough to be solved or tightly bounded.

One worker, a fixed seed and a limit in deterministic time: equal inputs give equal answers.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from stages.balance.assign import exchange
from stages.balance.problem import Ints, Problem

LIMIT = 64  # minibatches up to which CP-SAT is asked
WORTH_ASKING = 1e-3  # gap of the exchanges above which it is
DETERMINISTIC_SECONDS = 1.0  # of the solver's own count of work
BEFORE_CUTTING = 0.25  # the same where minibatches can still be cut
RESOLUTION = 100_000_000  # loads are rounded to this fraction of the mean target


class Solution(NamedTuple):
    """Group of each minibatch, and a bound on the imbalance of any assignment."""

    group_b: Ints
    bound: float


def improve(problem: Problem, group_b: Ints, bound: float) -> Solution:
    """Ask CP-SAT where the problem is small and the assignment illegal or not near its bound."""
    is_legal = not problem.excess(group_b).any()
    if len(group_b) > LIMIT or (is_legal and problem.gap(group_b, bound) <= WORTH_ASKING):
        return Solution(group_b, bound)
    found, found_bound = solve(problem, group_b)
    if found is not None:
        found = exchange(problem, found)
        if not is_legal or problem.imbalance(found) < problem.imbalance(group_b):
            group_b = found
    return Solution(group_b, max(bound, found_bound))


def solve(problem: Problem, start: Ints) -> tuple[Ints | None, float]:
    """Minimise the largest load over its target, weights exact, from a starting assignment.

    Returns:
        The group of each minibatch, None where no legal assignment was found, and a bound.
    """
    from ortools.sat.python import cp_model

    groups = range(len(problem.capacity_g))
    unit = problem.target_g.mean() / RESOLUTION
    load_b = np.round(problem.load_b / unit).astype(np.int64).tolist()
    capacity_g, weight_b = problem.capacity_g.tolist(), problem.weight_b.tolist()
    model = cp_model.CpModel()
    is_in = [[model.new_bool_var(f"{b} in {g}") for g in groups] for b in range(len(load_b))]
    # The largest load, each group's stretched to the largest capacity: targets go by capacity.
    largest = model.new_int_var(0, (sum(load_b) + 1) * max(capacity_g), "largest")
    for row in is_in:
        model.add_exactly_one(row)
    for g in groups:
        column = [row[g] for row in is_in]
        model.add(cp_model.LinearExpr.weighted_sum(column, weight_b) == capacity_g[g])
        load = cp_model.LinearExpr.weighted_sum(column, load_b)
        if not problem.is_judged_g[g]:
            # Not judged, but no place to hide load in either.
            held = max(problem.loads(start)[g], problem.target_g[g])
            model.add(load <= math.ceil(held / unit) + len(load_b))
            continue
        model.add(load * max(capacity_g) <= largest * capacity_g[g])
    _break_symmetry(model, is_in, problem)
    for row, g in zip(is_in, start.tolist(), strict=True):
        model.add_hint(row[g], 1)
    model.minimize(largest)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    is_last = np.all(problem.weight_b == 1)
    solver.parameters.max_deterministic_time = DETERMINISTIC_SECONDS if is_last else BEFORE_CUTTING
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, 0.0
    chosen = np.array([[solver.boolean_value(var) for var in row] for row in is_in])
    if not problem.is_judged_g.all():
        return np.argmax(chosen, axis=1).astype(np.int64), 0.0  # of the model, which says more
    # Rounding may have lowered the loads of a group by half a unit each.
    rounding = 0.5 * len(load_b) * unit / problem.target_g.min()
    bound = solver.best_objective_bound * unit / problem.target_g.max() - 1 - rounding
    return np.argmax(chosen, axis=1).astype(np.int64), max(0.0, bound)


def _break_symmetry(model: Any, is_in: list[list[Any]], problem: Problem) -> None:
    """Groups alike are interchangeable: the k-th heaviest minibatch goes to one of the first k."""
    if len(set(problem.capacity_g.tolist())) > 1:
        return
    for rank, b in enumerate(np.argsort(-problem.load_b, kind="stable")[: len(is_in[0])]):
        for g in range(rank + 1, len(is_in[0])):
            model.add(is_in[b][g] == 0)
