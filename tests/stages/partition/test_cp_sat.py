"""The programme against a model of the same question that another solver answers.

CP-SAT gets the question as a tour: from boundary 0 of the sorted list to boundary N and back, each
arc a minibatch of legal size at its price. Prices are written down anew from the objectives'
definitions, in whole numbers, so that the comparison is exact but for utilisation and the
expected longest.
"""

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from ortools.sat.python import cp_model
from scipy.special import ndtr

from stages.costs.model import CostModel
from stages.lengths.table import complete
from stages.partition.programme import Cost, Partition, cut_freely, cut_into
from stages.partition.stage import PartitionConfig, partition
from stages.tables.io import conform
from stages.tables.schemas import Lengths

Price = Callable[[int, int], int]  # of the minibatch of prompts i to j - 1

STEP, PROMPT = 250, 3  # price of a step, and of each prompt in it
UNIT = 10**10  # of a utilisation: 1 is UNIT

LENGTHS = {
    "random": lambda n, rng: rng.integers(1, 2000, n),
    "tied": lambda n, rng: rng.integers(1, 4, n),
    "heavy tail": lambda n, rng: np.ceil(rng.lognormal(3, 2, n)).astype(int),
    "zeros": lambda n, rng: rng.integers(0, 2, n) * rng.integers(0, 9, n),
}
SHAPES = [  # prompts, smallest and largest minibatch, minibatches
    (1, 1, 1, 1),
    (13, 1, 4, 7),
    (24, 4, 8, 4),
    (37, 9, 10, 4),
    (40, 3, 9, 6),
]


def cheapest(num_prompts: int, lo: int, hi: int, count: int | None, price: Price) -> int:
    """Least total price with sizes in [lo, hi], of `count` minibatches where that is given."""
    model = cp_model.CpModel()
    chosen, prices = [], []
    tour = [(num_prompts, 0, model.new_constant(1))]
    for i in range(num_prompts):
        for j in range(i + lo, min(i + hi, num_prompts) + 1):
            chosen.append(model.new_bool_var(f"{i} to {j}"))
            prices.append(price(i, j))
            tour.append((i, j, chosen[-1]))
    for inner in range(1, num_prompts):
        tour.append((inner, inner, model.new_bool_var(f"no cut at {inner}")))
    model.add_circuit(tour)
    if count is not None:
        model.add(sum(chosen) == count)
    model.minimize(cp_model.LinearExpr.weighted_sum(chosen, prices))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return sum(p for p, arc in zip(prices, chosen, strict=True) if solver.boolean_value(arc))


def padding(tokens: list[int]) -> Price:
    return lambda i, j: (j - i) * max(tokens[i:j])


def seconds(tokens: list[int]) -> Price:
    return lambda i, j: max(tokens[i:j]) * (STEP + PROMPT * (j - i))


def utilization(tokens: list[int]) -> Price:
    """Negated, since the price is minimised; of nothing paid all is useful."""

    def price(i: int, j: int) -> int:
        paid = (j - i) * max(tokens[i:j])
        return -round(UNIT * Fraction(sum(tokens[i:j]), paid)) if paid else -UNIT

    return price


OBJECTIVES = {
    "padding": (padding, Cost.padding),
    "seconds": (seconds, lambda key: Cost.seconds(key, float(STEP), float(PROMPT))),
    "utilization": (utilization, lambda key: Cost.utilization(key, key)),
}


def cut(cost: Cost, lo: int, hi: int, count: int | None) -> Partition:
    """By the programme, with the count fixed or free."""
    found = cut_freely(cost, lo, hi) if count is None else cut_into(cost, lo, hi, count)
    assert found is not None, "there is such a partition"
    return found


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("kind", LENGTHS)
@pytest.mark.parametrize(("num_prompts", "lo", "hi", "count"), SHAPES)
def test_the_least_total(
    objective: str, kind: str, num_prompts: int, lo: int, hi: int, count: int
) -> None:
    tokens = sorted(LENGTHS[kind](num_prompts, np.random.default_rng(num_prompts)).tolist())
    price, cost_of = OBJECTIVES[objective]
    unit = UNIT if objective == "utilization" else 1
    slop = num_prompts if objective == "utilization" else 0  # of prices rounded to whole numbers
    for fixed in (count, None):
        least = cheapest(num_prompts, lo, hi, fixed, price(tokens))
        ours = cut(cost_of(np.array(tokens, dtype=float)), lo, hi, fixed)
        assert ours.total * unit == pytest.approx(least, rel=1e-12, abs=slop)
        assert ours.gap < 1e-9


@pytest.mark.parametrize("count", [6, 9, None])
@pytest.mark.parametrize("seed", range(3))
def test_prices_of_no_pattern_at_all(seed: int, count: int | None) -> None:
    """Neither Monge nor of one sign: only trying everything finds the best."""
    num_prompts, lo, hi = 40, 3, 8
    table = np.random.default_rng(seed).integers(-99, 100, (num_prompts + 1, hi - lo + 1))
    cost = Cost.tabulated(np.zeros(num_prompts), table.astype(float), lo)
    least = cheapest(num_prompts, lo, hi, count, lambda i, j: int(table[j, j - i - lo]))
    ours = cut(cost, lo, hi, count)
    assert ours.total == least == cost.total(ours.ends)


@pytest.mark.parametrize("objective", [*OBJECTIVES, "expected-padding"])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_from_the_lengths_table(objective: str, spread: float) -> None:
    """The stage's value against prices computed from the table, in the stage's own order."""
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "prompt_id": range(36),
            "mu": rng.normal(5, 1, 36),
            "sigma": spread * rng.uniform(0.5, 1, 36),
            "cap": 2048,
            "samples_per_prompt": 3,
        }
    )
    frame = conform(frame, Lengths, "x", complete)
    config = PartitionConfig(batch_size=6, slack=0.35, objective=objective)  # type: ignore[arg-type]
    minibatches, results = partition(frame, config)
    ordered = frame[minibatches["prompt_ids"].explode().to_list()]
    price = price_in_floats(objective, ordered)
    unit = 10**9 / abs(price(0, 36))
    count = None if objective == "seconds" else 6
    least = cheapest(36, 4, 8, count, lambda i, j: round(unit * price(i, j))) / unit
    value = least / 6 if objective == "utilization" else least
    # Where spread is priced, on a grid, half a percent; else of prices in whole numbers.
    tolerance = 0.005 if objective in ("expected-padding", "seconds") else 1e-6
    assert abs(results["objective_value"]) == pytest.approx(abs(value), rel=tolerance)
    own = np.concatenate(([0], np.cumsum(minibatches["num_prompts"]))).tolist()
    paid = sum(price(i, j) for i, j in itertools.pairwise(own))
    assert paid == pytest.approx(least, rel=tolerance)


def price_in_floats(objective: str, ordered: pl.DataFrame) -> Callable[[int, int], float]:
    """The docstring of PartitionConfig, word for word; utilisation negated."""
    tokens = ordered["expected_tokens"].to_numpy()
    if objective == "expected-padding":
        return lambda i, j: (j - i) * expected_longest(ordered[i:j])
    if objective == "padding":
        return lambda i, j: (j - i) * tokens[i:j].max()
    if objective == "utilization":
        return lambda i, j: -tokens[i:j].sum() / ((j - i) * tokens[i:j].max())
    model = CostModel()
    return lambda i, j: (
        expected_longest(ordered[i:j]) * (model.step_seconds + 3 * model.sequence_seconds * (j - i))
    )


def expected_longest(prompts: pl.DataFrame) -> float:
    """Integral of the chance that one of 3 responses to each prompt is above t, on a fine grid."""
    step = 0.25  # tokens
    log_t = np.log(np.arange(step / 2, 2048, step))  # the middle of each step
    mu, sigma = (prompts[name].to_numpy()[:, None] for name in ("mu", "sigma"))
    within = ndtr((log_t - mu) / sigma) if sigma.any() else log_t >= mu
    return float(step * (1 - (within**3).prod(axis=0)).sum())
