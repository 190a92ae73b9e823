"""Lengths chosen to break the cut: the table is valid, and what it certifies is true.

Whether it is true is judged from outside: by trying every cut where there are few, by linear
programming where there are many. Its relaxation, in which minibatches may be taken in part, is
never above the best cut, and meets it where the cost is Monge.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack
from scipy.special import ndtr

from stages.lengths.table import complete
from stages.partition.programme import EXACT_LIMIT, Cost, cut_into
from stages.partition.stage import PartitionConfig, partition, sizes_for
from stages.tables.io import conform
from stages.tables.schemas import Minibatches

CAP = 2048
OBJECTIVES = ["expected-padding", "utilization", "padding", "seconds"]
TOKENS: dict[str, Callable[[int], Any]] = {
    "all equal": lambda n: np.full(n, 300.0),
    "two clusters": lambda n: np.where(np.arange(n) % 3, 20.0, 2000.0),
    "one giant": lambda n: np.append(np.full(n - 1, 1.0), 2000.0),
    "geometric": lambda n: np.minimum(2.0 ** (np.arange(n) - n // 2), 1e6),
    "at the cap": lambda n: np.full(n, 1e9),
    "nothing at all": lambda n: np.full(n, 1e-12),
    "heavy tail": lambda n: np.random.default_rng(n).lognormal(4, 2, n),
}
SPREADS = [0.0, 0.7, 1e300]
Price = Callable[[int, int], float]  # of the minibatch of prompts i to j - 1


def table_of(tokens: Any, spread: float = 0.0, samples: int = 1) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "prompt_id": range(len(tokens)),
            "mu": np.log(tokens),
            "sigma": spread,
            "cap": CAP,
            "samples_per_prompt": samples,
        }
    )
    nulls = {"prompt_hash": pl.String, "sample_sigma": pl.Float64, "prompt_tokens": pl.Int64}
    return complete(frame.with_columns(pl.lit(None, t).alias(name) for name, t in nulls.items()))


def check(minibatches: pl.DataFrame, num_prompts: int, config: PartitionConfig) -> None:
    """A valid table of every prompt once, its numbers finite and consistent, its sizes legal."""
    conform(minibatches, Minibatches, "x")
    assert sorted(minibatches["prompt_ids"].explode()) == list(range(num_prompts))
    numbers = minibatches.select(pl.col(pl.Float64))
    assert numbers.select(pl.all().is_finite().all()).row(0) == (True,) * numbers.width
    assert minibatches["predicted_longest"].max() <= CAP  # type: ignore[operator]
    paid = minibatches["num_samples"] * minibatches["predicted_longest"]
    assert (minibatches["predicted_tokens"] <= paid * (1 + 1e-6) + 1e-9).all()
    if config.method == "exact":
        sizes = sizes_for(num_prompts, config.batch_size, config.slack)
        assert minibatches["num_prompts"].is_between(sizes.lo, sizes.hi).all()


def price_of(objective: str, ordered: pl.DataFrame, samples: int) -> Price:
    """The definitions in PartitionConfig; utilisation negated, for the least is looked for."""
    tokens = ordered["expected_tokens"].to_numpy()
    if objective == "expected-padding":
        return lambda i, j: (j - i) * expected_longest(ordered[i:j], samples)
    if objective == "padding":
        return lambda i, j: (j - i) * tokens[i:j].max()
    if objective == "seconds":
        return lambda i, j: (
            expected_longest(ordered[i:j], samples) * (0.02 + 0.00008 * samples * (j - i))
        )
    return lambda i, j: -tokens[i:j].sum() / ((j - i) * tokens[i:j].max())


def expected_longest(prompts: pl.DataFrame, samples: int) -> float:
    """Chance that a response is above t, added up over steps of t; log steps, from 1e-13 tokens."""
    edge = np.exp(np.linspace(np.log(1e-13), np.log(CAP), 4_001))
    log_t = np.log((edge[1:] + edge[:-1]) / 2)
    mu, sigma = (prompts[name].to_numpy()[:, None] for name in ("mu", "sigma"))
    within = ndtr((log_t - mu) / sigma) if sigma.any() else log_t >= mu
    return float((np.diff(edge) * (1 - (within**samples).prod(axis=0))).sum())


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_few_prompts_by_every_cut(kind: str, spread: float, objective: str) -> None:
    num_prompts, samples = 9, 2
    frame = table_of(TOKENS[kind](num_prompts), spread, samples)
    config = PartitionConfig(3, 0.4, objective=objective)  # type: ignore[arg-type]
    minibatches, results = partition(frame, config)
    check(minibatches, num_prompts, config)
    price = price_of(objective, frame[minibatches["prompt_ids"].explode().to_list()], samples)
    prices = {
        (i, j): price(i, j) for i in range(9) for j in (i + 2, i + 3, i + 4) if j <= num_prompts
    }
    totals = [
        sum(prices[piece] for piece in itertools.pairwise((0, *cuts, num_prompts)))
        for count in (range(1, 6) if objective == "seconds" else [3])
        for cuts in itertools.combinations(range(1, num_prompts), count - 1)
        if {b - a for a, b in itertools.pairwise((0, *cuts, num_prompts))} <= {2, 3, 4}
    ]
    least = min(totals) / (-3 if objective == "utilization" else 1)
    # Prices that rest on a grid are as coarse as it: it spans what all spreads reach.
    grid = 0.005 if spread < 1 else 0.03
    tolerance = grid if objective in ("expected-padding", "seconds") else 1e-9
    assert results["objective_value"] == pytest.approx(least, rel=tolerance)
    assert results["gap"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize(
    ("num_prompts", "batch_size", "slack"),
    [(1, 1, 0.0), (1, 32, 1.0), (50, 1, 1.0), (50, 8, 0.0), (50, 32, 1.0)],
)
def test_few_prompts_many_or_none_to_choose_from(
    kind: str, num_prompts: int, batch_size: int, slack: float
) -> None:
    spread = SPREADS[batch_size % len(SPREADS)]
    frame = table_of(TOKENS[kind](num_prompts), spread)
    for objective in OBJECTIVES:
        config = PartitionConfig(batch_size, slack, objective=objective)  # type: ignore[arg-type]
        minibatches, results = partition(frame, config)
        check(minibatches, num_prompts, config)
        assert 0 <= float(results["gap"]) < 1e-9  # type: ignore[arg-type]
    for method in ("fixed", "random"):
        config = PartitionConfig(batch_size, slack, method=method)  # type: ignore[arg-type]
        check(partition(frame, config)[0], num_prompts, config)


def relaxed(price: Price, num_prompts: int, lo: int, hi: int, count: int) -> float:
    """Least price of `count` minibatches that may be taken in part: what enters a cut leaves it."""
    arcs = [(i, j) for i in range(num_prompts) for j in range(i + lo, min(i + hi, num_prompts) + 1)]
    starts, ends = np.array(arcs).T
    shape, each = (num_prompts + 1, len(arcs)), np.arange(len(arcs))
    leaves, enters = (coo_array((np.ones(len(arcs)), (at, each)), shape) for at in (starts, ends))
    flow = np.zeros(num_prompts + 1)
    flow[0], flow[-1] = 1, -1
    prices = np.array([price(i, j) for i, j in arcs])
    unit = np.abs(prices).max() or 1.0
    solved = linprog(
        prices / unit,
        A_eq=vstack([leaves - enters, coo_array(np.ones((1, len(arcs))))]),
        b_eq=np.append(flow, count),
    )
    assert solved.status == 0
    return float(solved.fun) * unit


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize("objective", ["padding", "utilization"])
def test_many_prompts_by_linear_programming(kind: str, objective: str) -> None:
    num_prompts = 240
    frame = table_of(TOKENS[kind](num_prompts))
    config = PartitionConfig(16, 0.25, objective=objective)  # type: ignore[arg-type]
    minibatches, results = partition(frame, config)
    check(minibatches, num_prompts, config)
    price = price_of(objective, frame[minibatches["prompt_ids"].explode().to_list()], 1)
    least = relaxed(price, num_prompts, 12, 20, 15)
    value, bound = float(results["objective_value"]), float(results["objective_bound"])  # type: ignore[arg-type]
    if objective == "padding":
        assert value == pytest.approx(least, rel=1e-6)
        assert bound == pytest.approx(value, rel=1e-9)
    else:
        assert value <= -least / 15 * (1 + 1e-6)
        assert value > -least / 15 - 0.01  # and near it


@pytest.mark.parametrize("kind", ["heavy tail", "two clusters", "geometric"])
def test_the_bound_above_the_exact_limit_is_that_of_the_relaxation(kind: str) -> None:
    """A price per minibatch is the multiplier of the count: the best one gives the relaxation."""
    num_prompts, lo, hi, count = EXACT_LIMIT + 1, 40, 44, 48
    tokens = np.sort(TOKENS[kind](num_prompts))
    sums = np.concatenate(([0.0], np.cumsum(tokens)))
    cut = cut_into(Cost.utilization(tokens, tokens), lo, hi, count)
    least = relaxed(
        lambda i, j: -(sums[j] - sums[i]) / ((j - i) * tokens[j - 1]), num_prompts, lo, hi, count
    )
    assert cut.bound <= least + 1e-6 * abs(least)
    assert cut.total >= least - 1e-6 * abs(least)
    assert cut.bound == pytest.approx(least, rel=1e-4)
