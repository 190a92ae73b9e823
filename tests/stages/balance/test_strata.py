"""Each stratum is spread over the groups, as far as loads allow."""

import numpy as np
import polars as pl
import pytest

from stages.balance.problem import Problem
from stages.balance.stage import BalanceConfig, balance
from stages.balance.strata import MOST_STRATA, TOLERANCE, check_strata, count_strata, spread_strata
from stages.tables.derived import complete_minibatches
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Minibatches


def minibatches_of(loads: list[float], strata: list[list[str | None]]) -> pl.DataFrame:
    ends = np.cumsum([len(inside) for inside in strata])
    frame = pl.DataFrame(
        {
            "minibatch_id": range(len(loads)),
            "prompt_ids": [
                list(range(end - len(s), end)) for s, end in zip(strata, ends, strict=True)
            ],
            "num_samples": [len(inside) for inside in strata],
            "predicted_tokens": loads,
            "predicted_longest": loads,
            "predicted_seconds": loads,
            "predicted_utilization": 0.5,
            "domain": strata,
        }
    )
    return conform(frame, Minibatches, "x", complete_minibatches)


def some_minibatches(num: int, seed: int, size: int = 16) -> pl.DataFrame:
    """Each minibatch leans to one of three domains, or to none that is known."""
    rng = np.random.default_rng(seed)
    leaning = rng.integers(0, 4, (num, 1))
    drawn = np.where(rng.random((num, size)) < 0.6, leaning, rng.integers(0, 4, (num, size)))
    names = np.array(["maths", "code", "games", None], dtype=object)
    return minibatches_of(np.sort(rng.lognormal(3, 0.5, num)).tolist(), names[drawn].tolist())


def test_by_hand() -> None:
    """Four minibatches of equal load: each pair gets one of a and one of b."""
    lists = pl.Series([["a"], ["a"], ["b"], ["b"]])
    assert count_strata(lists).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    problem = Problem(np.ones(4), np.ones(4, dtype=int), np.array([2, 2]))
    group_b = spread_strata(problem, np.array([0, 0, 1, 1]), lists, 0.0, None)
    assert sorted(group_b[:2]) == sorted(group_b[2:]) == [0, 1]


def test_nulls_are_a_stratum_of_their_own() -> None:
    assert count_strata(pl.Series([["a", None, None], [None]])).tolist() == [[1, 2], [0, 1]]


@pytest.mark.parametrize("grouping", [{"group_size": 8}, {"prompts_per_group": 128}])
@pytest.mark.parametrize("policy", ["balanced", "isolate"])
def test_strata_come_nearer_and_loads_stay(grouping: dict[str, int], policy: str) -> None:
    for seed in range(3):
        frame = some_minibatches(160, seed)
        plain = BalanceConfig(**grouping, policy=policy, stratify=None)  # type: ignore[arg-type]
        asked = BalanceConfig(**grouping, policy=policy, stratify="domain")  # type: ignore[arg-type]
        _, before = balance(frame, plain)
        groups, after = balance(frame, asked)
        assert sorted(groups["minibatch_id"]) == list(range(160))
        assert after["imbalance"] <= before["imbalance_bound"] + TOLERANCE * 1.001
        assert "stratum_bias_mean" not in before
        if policy == "balanced":
            assert after["stratum_bias_mean"] < after["stratum_bias_random_mean"]
        assert groups.equals(balance(frame, asked)[0])


def test_exchanges_never_take_the_mix_further_away() -> None:
    frame = some_minibatches(64, seed=9)
    problem = BalanceConfig(8, load="seconds").problem(frame)
    group_b = np.arange(64) % 8
    counts = count_strata(frame["domain"])

    def squares(group_b: np.ndarray) -> float:
        held = np.zeros((8, counts.shape[1]))
        np.add.at(held, group_b, counts)
        return float(((held - held.mean(axis=0)) ** 2).sum())

    spread = spread_strata(problem, group_b, frame["domain"], 0.0, None)
    assert squares(spread) < squares(group_b)
    largest = max(problem.imbalance(group_b), TOLERANCE)
    assert problem.imbalance(spread) <= largest + 1e-9
    assert not problem.excess(spread).any()


def test_minibatches_of_other_sizes_are_not_exchanged_in_train_batches() -> None:
    problem = Problem(np.ones(4), np.array([1, 2, 2, 1]), np.array([3, 3]))
    lists = pl.Series([["a"], ["a", "a"], ["b", "b"], ["b"]])
    group_b = spread_strata(problem, np.array([0, 0, 1, 1]), lists, 0.0, None)
    assert not problem.excess(group_b).any()


def test_like_and_baselines_are_measured_alone() -> None:
    frame = some_minibatches(40, seed=2)
    for way in ({"policy": "like"}, {"method": "snake"}):
        plain, _ = balance(frame, BalanceConfig(**way))  # type: ignore[arg-type]
        groups, results = balance(frame, BalanceConfig(**way, stratify="domain"))  # type: ignore[arg-type]
        assert groups.equals(plain) and results["stratum_bias_largest"] > 0


def test_a_column_that_tells_no_strata_is_refused() -> None:
    frame = some_minibatches(4, seed=0).with_columns(owner=pl.lit("me"))
    with pytest.raises(AspError, match=r"no column 'level' .*that do: domain$"):
        check_strata(frame, "level", "m.parquet")
    with pytest.raises(AspError, match="column 'owner' holds no list with a value a prompt"):
        check_strata(frame, "owner", "m.parquet")
    many = minibatches_of([1.0], [[str(i) for i in range(MOST_STRATA + 1)]])
    with pytest.raises(AspError, match="257 different values, above 256"):
        check_strata(many, "domain", "m.parquet")
    bare = frame.drop("domain", "owner")
    with pytest.raises(AspError, match=r"that do: none$"):
        check_strata(bare, "domain", "m.parquet")
