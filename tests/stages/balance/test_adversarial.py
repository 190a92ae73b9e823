"""Loads chosen to break the balance: the table is valid, and what it certifies is true.

No bound may be above what some assignment reaches: so it is held against every method, and
against the optimum where that is known from how the loads were made.
"""

from typing import Any

import numpy as np
import polars as pl
import pytest

from stages.balance.stage import BalanceConfig, balance
from stages.tables.derived import complete_minibatches
from stages.tables.io import conform
from stages.tables.schemas import Groups, Minibatches

BASELINES = ["sorted", "shuffled", "snake"]
CAP = 2048.0
LOADS = {
    "all equal": lambda n: np.full(n, 7.0),
    "two clusters": lambda n: np.where(np.arange(n) % 2, 1.0, 100.0),
    "one giant": lambda n: np.append(np.ones(n - 1), 1e9),
    "geometric": lambda n: 2.0 ** (np.arange(n) % 60),
    "at the cap": lambda n: np.full(n, CAP),
    "nothing at all": np.zeros,
    "one that is something": lambda n: np.append(np.zeros(n - 1), 1.0),
    "next to nothing": lambda n: np.full(n, 1e-300),
    "as large as allowed": lambda n: np.full(n, 1e200),
    "heavy tail": lambda n: np.random.default_rng(n).lognormal(3, 3, n),
}


def minibatches_of(loads: np.ndarray, size: int = 2) -> pl.DataFrame:
    num = len(loads)
    frame = pl.DataFrame(
        {
            "minibatch_id": range(num),
            "prompt_ids": np.arange(size * num).reshape(num, size).tolist(),
            "num_samples": size,
            "predicted_tokens": loads,
            "predicted_longest": loads,
            "predicted_seconds": loads,
            "predicted_utilization": 0.5,
        }
    )
    return conform(frame, Minibatches, "x", complete_minibatches)


def balanced(
    minibatches: pl.DataFrame, size: int, **config: Any
) -> tuple[pl.DataFrame, dict[str, float]]:
    """Balance, and check what holds of every result, the stated imbalance by adding up again."""
    groups, results = balance(minibatches, BalanceConfig(size, **config))
    conform(groups, Groups, "x")
    assert sorted(groups["minibatch_id"]) == sorted(minibatches["minibatch_id"])
    numbers = {name: float(results[name]) for name in ("imbalance", "imbalance_bound", "gap")}  # type: ignore[arg-type]
    held = groups.group_by("group_id").agg(pl.len(), pl.col("predicted_seconds").sum())
    share = held["predicted_seconds"] / held["len"] * len(groups)
    total = float(groups["predicted_seconds"].sum())
    stated = (1 + numbers["imbalance"]) * total
    assert stated == pytest.approx(share.max() if total else 0.0, rel=1e-9)
    assert 0 <= numbers["imbalance_bound"] <= numbers["imbalance"] + 1e-9
    reached = (1 + numbers["imbalance"]) / (1 + numbers["imbalance_bound"]) - 1
    assert numbers["gap"] == pytest.approx(reached, abs=1e-9)
    return groups, numbers


@pytest.mark.parametrize("kind", LOADS)
@pytest.mark.parametrize(("num", "size"), [(1, 1), (1, 8), (7, 8), (7, 1), (9, 8), (24, 4)])
def test_the_bound_is_below_every_method(kind: str, num: int, size: int) -> None:
    minibatches = minibatches_of(LOADS[kind](num))
    _, ours = balanced(minibatches, size)
    for method in BASELINES:
        _, theirs = balanced(minibatches, size, method=method)
        assert ours["imbalance_bound"] <= theirs["imbalance"] + 1e-9
        assert ours["imbalance"] <= theirs["imbalance"] + 1e-9


@pytest.mark.parametrize("kind", LOADS)
@pytest.mark.parametrize("prompts", [1, 2, 5, 1000])
def test_train_batches_of_exact_prompts(kind: str, prompts: int) -> None:
    minibatches = minibatches_of(LOADS[kind](13))
    groups, results = balance(minibatches, BalanceConfig(prompts_per_group=prompts))
    conform(groups, Groups, "x")
    assert sorted(groups["prompt_ids"].explode()) == list(range(26))
    held = groups.group_by("group_id").agg(pl.col("num_prompts").sum()).sort("group_id")
    assert set(held["num_prompts"][:-1]) <= {prompts} and held["num_prompts"][-1] <= prompts
    assert 0 <= float(results["imbalance_bound"]) <= float(results["imbalance"]) + 1e-9  # type: ignore[arg-type]
    assert np.isfinite(float(results["gap"]))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["all equal", "at the cap", "two clusters", "nothing at all"])
@pytest.mark.parametrize(("num", "size"), [(64, 8), (1024, 16), (40, 2)])
def test_a_perfect_balance_is_found_where_one_is_plain(kind: str, num: int, size: int) -> None:
    _, numbers = balanced(minibatches_of(LOADS[kind](num)), size)
    assert numbers == {"imbalance": 0, "imbalance_bound": 0, "gap": 0}


@pytest.mark.parametrize(("num", "size"), [(40, 8), (60, 4), (59, 10)])
def test_the_giant_with_the_lightest_company_cannot_be_beaten(num: int, size: int) -> None:
    """Each load is above all lighter ones together, so the heaviest group is the heaviest's."""
    loads = LOADS["geometric"](num)
    groups, numbers = balanced(minibatches_of(loads), size)
    groups = groups.select("group_id", "minibatch_id")
    group_of_giant = groups.filter(minibatch_id=num - 1)["group_id"][0]
    company = sorted(groups.filter(group_id=group_of_giant)["minibatch_id"])
    assert company == [*range(size - 1), num - 1]
    assert numbers["gap"] == pytest.approx(0, abs=1e-9)
