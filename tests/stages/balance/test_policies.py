"""Each policy is as good as it says, against every dealing there is; and keeps every prompt."""

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.balance.order import least_running_deviation, order_groups, running_deviation
from stages.balance.problem import Problem
from stages.balance.stage import BalanceConfig, balance
from stages.balance.waiting import mean_longest, num_long_groups
from stages.tables.derived import complete_minibatches
from stages.tables.io import conform
from stages.tables.schemas import Groups, Minibatches

POLICIES = ["balanced", "like", "isolate"]
GROUPINGS = [{"group_size": 4}, {"prompts_per_group": 100}]


def minibatches_of(sizes: list[int], longest: list[float], **columns: object) -> pl.DataFrame:
    ends = np.cumsum(sizes)
    ids = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    samples = [2 * size for size in sizes]
    tokens = [0.5 * length * n for length, n in zip(longest, samples, strict=True)]
    frame = pl.DataFrame(
        {
            "minibatch_id": range(len(sizes)), "prompt_ids": ids, "num_samples": samples,
            "predicted_tokens": tokens, "predicted_longest": longest,
            "predicted_seconds": longest, "predicted_utilization": 0.5, **columns,
        }, schema_overrides={"predicted_longest": pl.Float64, "predicted_seconds": pl.Float64},
    )  # fmt: skip
    return conform(frame, Minibatches, "x", complete_minibatches)


def some_minibatches(num: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return minibatches_of(
        rng.integers(24, 41, num).tolist(), np.sort(rng.lognormal(5, 0.9, num)).tolist()
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("num", [1, 2, 5, 90])
def test_each_prompt_once_in_groups_of_the_size_asked_for(
    policy: str, grouping: dict[str, int], num: int
) -> None:
    minibatches = some_minibatches(num, seed=num)
    config = BalanceConfig(**grouping, policy=policy, epochs=2, seed=1)  # type: ignore[arg-type]
    groups, results = balance(minibatches, config)
    conform(groups, Groups, "x")
    total = int(minibatches["num_prompts"].sum())
    for _, epoch in groups.group_by("epoch"):
        assert sorted(epoch["prompt_ids"].explode().to_list()) == list(range(total))
        counts = epoch.group_by("group_id").agg(pl.len(), pl.col("num_prompts").sum())
        held = counts.sort("group_id")["num_prompts" if "prompts_per_group" in grouping else "len"]
        assert (held[:-1] == next(iter(grouping.values()))).all()
    assert groups["num_samples"].sum() == 2 * minibatches["num_samples"].sum()
    assert results["gap"] >= 0
    assert groups.equals(balance(minibatches, config)[0])


def dealings(problem: Problem) -> list[np.ndarray]:
    """Every assignment of unit weights to groups."""
    slots = np.repeat(np.arange(len(problem.capacity_g)), problem.capacity_g)
    return [np.array(dealt) for dealt in set(itertools.permutations(slots.tolist()))]


@settings(max_examples=25)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=7), st.integers(1, 3))
def test_like_waits_the_least_of_all_dealings(longest: list[int], size: int) -> None:
    frame = minibatches_of([1] * len(longest), [float(length) for length in longest])
    groups, results = balance(frame, BalanceConfig(size, policy="like"))
    problem = BalanceConfig(size, load="seconds").problem(frame)
    values = frame["predicted_longest"].to_numpy()
    least = min(mean_longest(values, dealt, len(problem.capacity_g)) for dealt in dealings(problem))
    assert results["mean_longest"] == pytest.approx(least)
    assert results["mean_longest_bound"] == pytest.approx(least)
    of_groups = groups.group_by("group_id").agg(pl.col("predicted_longest").max())
    assert of_groups["predicted_longest"].mean() == pytest.approx(least)


@settings(max_examples=25)
@given(st.integers(0, 999), st.integers(1, 40))
def test_no_dealing_of_train_batches_waits_less_than_like(seed: int, prompts: int) -> None:
    frame = some_minibatches(6, seed)
    config = BalanceConfig(prompts_per_group=prompts, policy="like")
    groups, like = balance(frame, config)
    assert like["gap"] == pytest.approx(0, abs=1e-9)
    # Each group holds the longest prompts that the groups before it left.
    line = groups.sort("predicted_longest", descending=True)
    heads = np.repeat(line["predicted_longest"], line["num_prompts"])[::prompts]
    assert like["mean_longest"] == pytest.approx(heads.mean())
    for method in ("shuffled", "snake"):
        other = balance(frame, BalanceConfig(prompts_per_group=prompts, method=method))[1]  # type: ignore[arg-type]
        assert other["mean_longest"] >= like["mean_longest"] - 1e-9


def test_like_and_isolate_by_hand() -> None:
    """Two giants among short ones: a group of their own, then the others two by two."""
    frame = minibatches_of([1] * 8, [1.0, 2, 3, 4, 5, 6, 90, 100])
    like, results = balance(frame, BalanceConfig(2, policy="like"))
    dealt = {tuple(sorted(g["minibatch_id"])) for _, g in like.group_by("group_id")}
    assert dealt == {(6, 7), (4, 5), (2, 3), (0, 1)}
    assert results["mean_longest"] == (100 + 6 + 4 + 2) / 4
    isolated, results = balance(frame, BalanceConfig(2, policy="isolate"))
    dealt = {tuple(sorted(g["minibatch_id"])) for _, g in isolated.group_by("group_id")}
    assert dealt == {(6, 7), (0, 5), (1, 4), (2, 3)}
    assert results["num_long_groups"] == 1 and results["imbalance"] == 0
    # Balanced: 100, 90, 6, 5 head a group each. One long group: 100, then 6, 5, 4. Like: 112.
    assert num_long_groups(
        frame["predicted_longest"].to_numpy(), BalanceConfig(2, load="seconds").problem(frame)
    )


@pytest.mark.parametrize("longest", [[5.0] * 9, [0.0] * 9, [7.0]])
def test_where_nothing_is_long_nothing_is_isolated(longest: list[float]) -> None:
    frame = minibatches_of([3] * len(longest), longest)
    isolated, results = balance(frame, BalanceConfig(2, policy="isolate"))
    assert results["num_long_groups"] == 0
    assert isolated.equals(balance(frame, BalanceConfig(2))[0])


@settings(max_examples=25)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(1, 2))
def test_no_order_runs_nearer_the_mean_than_the_bound(loads: list[int], size: int) -> None:
    frame = minibatches_of([1] * len(loads), [float(load) for load in loads])
    problem = BalanceConfig(size, load="seconds").problem(frame)
    group_b = np.sort(dealings(problem)[0])
    found = np.abs(running_deviation(problem, group_b, order_groups(problem, group_b))).max()
    num_full = int((problem.capacity_g == problem.capacity_g[0]).sum())
    rest = list(range(num_full, len(problem.capacity_g)))
    least = min(
        np.abs(running_deviation(problem, group_b, np.array([*order, *rest]))).max()
        for order in itertools.permutations(range(num_full))
    )
    bound = least_running_deviation(problem, group_b)
    assert bound <= least + 1e-9 <= found + 2e-9
    assert found <= 2 * bound + 1e-9


@pytest.mark.parametrize("policy", POLICIES)
def test_long_groups_are_spread_over_every_epoch(policy: str) -> None:
    frame = some_minibatches(160, seed=3)
    groups, results = balance(frame, BalanceConfig(8, policy=policy, epochs=3))  # type: ignore[arg-type]
    assert results["largest_running_deviation"] <= 2 * results["running_deviation_bound"] + 1e-9
    orders = {tuple(epoch["minibatch_id"]) for _, epoch in groups.group_by("epoch")}
    assert len(orders) == 3


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_loads_in_another_unit_give_the_same_groups(policy: str, grouping: dict[str, int]) -> None:
    frame = some_minibatches(100, seed=5)
    config = BalanceConfig(**grouping, policy=policy, load="tokens")  # type: ignore[arg-type]
    scaled = frame.with_columns(pl.col("predicted_tokens", "predicted_longest") * 1024)
    columns = ["minibatch_id", "group_id", "position"]
    assert balance(frame, config)[0][columns].equals(balance(scaled, config)[0][columns])


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_minibatches_are_interchangeable(policy: str) -> None:
    """The groups hold the same loads whatever the order of equal minibatches."""
    longest = [1.0] * 10 + [4.0] * 6 + [9.0] * 5
    config = BalanceConfig(4, policy=policy)  # type: ignore[arg-type]
    loads = []
    for ids in (range(21), reversed(range(21))):
        frame = minibatches_of([2] * 21, longest).with_columns(minibatch_id=pl.Series(list(ids)))
        groups, results = balance(frame, config)
        held = groups.group_by("group_id").agg(pl.col("predicted_seconds").sort())
        loads.append((sorted(held["predicted_seconds"].to_list()), results["gap"]))
    assert loads[0] == loads[1]


def test_policies_trade_balance_for_waiting() -> None:
    frame = some_minibatches(160, seed=0)
    measured = [balance(frame, BalanceConfig(8, policy=p))[1] for p in POLICIES]  # type: ignore[arg-type]
    balanced, like, isolate = measured
    assert balanced["mean_longest"] > isolate["mean_longest"] > like["mean_longest"]
    assert balanced["length_bias_mean"] < isolate["length_bias_mean"] < like["length_bias_mean"]
    assert balanced["gap"] < 1e-3 and isolate["gap"] < 1e-3 and like["gap"] == 0
