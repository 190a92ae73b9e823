"""The lower bound is one: no assignment, exhaustively tried, is below it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.balance.assign import assign
from stages.balance.problem import Problem
from stages.balance.solver import solve


def capacities(total: int, size: int) -> np.ndarray:
    full, rest = divmod(total, size)
    return np.array([size] * full + [rest] * (rest > 0))


def best_imbalance(problem: Problem) -> float:
    """Least imbalance over every assignment that holds the capacities; infinite if none does."""
    best = np.inf
    chosen = np.zeros(len(problem.load_b), dtype=int)

    def place(b: int, room: list[int]) -> None:
        nonlocal best
        if b == len(chosen):
            best = min(best, problem.imbalance(chosen))
            return
        tried = set()
        for g, free in enumerate(room):
            is_empty = free == problem.capacity_g[g]
            if free < problem.weight_b[b] or (is_empty and free in tried):
                continue  # no room, or an empty group just like one that was tried
            if is_empty:
                tried.add(free)
            chosen[b] = g
            place(b + 1, [r - problem.weight_b[b] * (k == g) for k, r in enumerate(room)])

    place(0, problem.capacity_g.tolist())
    return best


loads = st.lists(st.floats(0, 1000), min_size=1, max_size=8)


@given(loads, st.integers(1, 4))
def test_bounds_against_exhaustive_search(values: list[float], size: int) -> None:
    problem = Problem(
        np.array(values), np.ones(len(values), dtype=int), capacities(len(values), size)
    )
    best = best_imbalance(problem)
    assert problem.bound() <= best + 1e-9
    found = problem.imbalance(assign(problem))
    assert found >= best - 1e-9


@given(
    st.lists(st.tuples(st.floats(0.1, 1000), st.integers(1, 4)), min_size=1, max_size=7),
    st.integers(2, 8),
)
def test_bounds_with_prompt_weights(rows: list[tuple[float, int]], size: int) -> None:
    load, weight = (np.array(column) for column in zip(*rows, strict=True))
    problem = Problem(load, weight, capacities(int(weight.sum()), size))
    best = best_imbalance(problem)  # infinite where no whole minibatches fill the groups
    assert problem.bound() <= best + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_solver_finds_the_best_of_small_problems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = rng.lognormal(2, 1.5, 9)
    problem = Problem(load, np.ones(9, dtype=int), capacities(9, 3))
    group_b, bound = solve(problem, assign(problem))
    best = best_imbalance(problem)
    assert group_b is not None
    assert problem.imbalance(group_b) == pytest.approx(best, abs=1e-6)
    assert bound <= best + 1e-9 and bound == pytest.approx(best, abs=1e-5)


def test_by_hand() -> None:
    """8 | 1 1 | 7 1 ... one giant: the group that holds it cannot be lighter than 8 + 1."""
    problem = Problem(np.array([8.0, 1, 1, 2]), np.ones(4, dtype=int), np.array([2, 2]))
    assert problem.target_g.tolist() == [6, 6]
    assert problem.bound() == pytest.approx(9 / 6 - 1)
    assert problem.imbalance(np.array([0, 0, 1, 1])) == pytest.approx(9 / 6 - 1)
    assert problem.gap(np.array([0, 0, 1, 1]), problem.bound()) == 0
