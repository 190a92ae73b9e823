"""Minibatches to groups: every prompt once, capacities exact, loads near equal, order smooth."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.balance.stage import BalanceConfig, balance, run
from stages.costs.model import CostModel, recorded_cost_model
from stages.tables.derived import complete_minibatches
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.provenance import Provenance
from stages.tables.schemas import Groups, Minibatches

METHODS = [None, "sorted", "shuffled", "snake"]


def minibatches_of(sizes: list[int], loads: list[float], **columns: object) -> pl.DataFrame:
    ends = np.cumsum(sizes)
    frame = pl.DataFrame(
        {
            "minibatch_id": range(len(sizes)),
            "prompt_ids": [
                list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)
            ],
            "num_samples": [2 * size for size in sizes],
            "predicted_tokens": [float(load) for load in loads],
            "predicted_longest": [float(load) for load in loads],
            "predicted_seconds": [float(load) for load in loads],
            "predicted_utilization": [0.5] * len(sizes),
            **columns,
        }
    )
    return conform(frame, Minibatches, "x", complete_minibatches)


def random_minibatches(num: int, seed: int, low: int = 24, high: int = 40) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return minibatches_of(
        rng.integers(low, high + 1, num).tolist(), np.sort(rng.lognormal(2, 0.7, num)).tolist()
    )


@settings(max_examples=30)
@given(st.sampled_from([1, 2, 7, 8, 9, 31, 53]), st.integers(1, 12), st.sampled_from(METHODS))
def test_each_prompt_once_in_groups_of_k(num: int, size: int, method: str | None) -> None:
    minibatches = random_minibatches(num, seed=num)
    groups, results = balance(minibatches, BalanceConfig(size, method=method))  # type: ignore[arg-type]
    conform(groups, Groups, "x")
    total = int(minibatches["num_prompts"].sum())
    assert sorted(groups["prompt_ids"].explode().to_list()) == list(range(total))
    sizes = groups.group_by("group_id").len().sort("group_id")["len"].to_list()
    assert sizes[:-1] == [size] * (len(sizes) - 1) and sizes[-1] == (num - 1) % size + 1
    assert results["num_split"] == 0
    assert results["gap"] >= 0


@settings(max_examples=30)
@given(
    st.sampled_from([1, 2, 7, 8, 13, 31]),
    st.sampled_from([1, 16, 64, 100, 101, 256]),
    st.sampled_from(METHODS),
    st.sampled_from([(24, 40), (32, 32), (1, 3)]),
)
def test_each_prompt_once_in_groups_of_p_prompts(
    num: int, prompts: int, method: str | None, sizes: tuple[int, int]
) -> None:
    minibatches = random_minibatches(num, num, *sizes)
    groups, _ = balance(minibatches, BalanceConfig(prompts_per_group=prompts, method=method))  # type: ignore[arg-type]
    conform(groups, Groups, "x")
    total = int(minibatches["num_prompts"].sum())
    assert sorted(groups["prompt_ids"].explode().to_list()) == list(range(total))
    assert groups["num_samples"].sum() == minibatches["num_samples"].sum()
    held = (
        groups.group_by("group_id").agg(pl.col("num_prompts").sum()).sort("group_id")["num_prompts"]
    )
    assert held.to_list()[:-1] == [prompts] * (len(held) - 1)
    assert held[-1] == (total - 1) % prompts + 1


@pytest.mark.parametrize(("num", "size"), [(128, 8), (256, 16), (1000, 8), (100, 9)])
def test_loads_are_within_a_tenth_of_a_percent_of_the_bound(num: int, size: int) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        frame = minibatches_of([1] * num, rng.lognormal(3, 0.6, num).tolist())
        _, results = balance(frame, BalanceConfig(size))
        assert results["gap"] < 0.001


def test_by_hand() -> None:
    """9 8 | 7 6 5 4 3 2: pairs of 11, longest first inside, all groups alike."""
    frame = minibatches_of([1] * 8, [2, 3, 4, 5, 6, 7, 8, 9])
    groups, results = balance(frame, BalanceConfig(group_size=2))
    loads = groups["predicted_seconds"].to_list()
    assert sorted(zip(loads[::2], loads[1::2], strict=True)) == [(6, 5), (7, 4), (8, 3), (9, 2)]
    assert results["imbalance"] == 0 and results["gap"] == 0


def test_methods_by_hand() -> None:
    frame = minibatches_of([1] * 6, [1, 2, 3, 4, 5, 6])
    by_method = {m: balance(frame, BalanceConfig(3, method=m))[0] for m in METHODS}  # type: ignore[arg-type]
    assert by_method["sorted"]["minibatch_id"].to_list() == [0, 1, 2, 3, 4, 5]
    assert by_method["snake"]["minibatch_id"].to_list() == [5, 2, 1, 4, 3, 0]
    again = balance(frame, BalanceConfig(3, method="shuffled", seed=1))[0]
    assert again["minibatch_id"].to_list() != by_method["shuffled"]["minibatch_id"].to_list()
    assert by_method["shuffled"].equals(balance(frame, BalanceConfig(3, method="shuffled"))[0])


@settings(max_examples=15)
@given(st.integers(2, 60), st.integers(1, 8), st.integers(0, 5))
def test_running_load_stays_within_one_largest_minibatch(num: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = minibatches_of([1] * num, rng.lognormal(3, 0.5, num).tolist())
    _, results = balance(frame, BalanceConfig(size))
    assert results["largest_running_deviation"] <= 1 + 1e-9


def test_a_giant_does_not_spoil_the_other_groups() -> None:
    rng = np.random.default_rng(0)
    frame = minibatches_of([1] * 64, [*rng.lognormal(3, 0.5, 63).tolist(), 1e5])
    groups, results = balance(frame, BalanceConfig(8))
    loads = (
        groups.group_by("group_id")
        .agg(pl.col("predicted_seconds").sum())["predicted_seconds"]
        .sort()
    )
    assert results["gap"] < 1e-9
    assert loads[-2] / loads[0] < 1.01


@pytest.mark.parametrize("loads", [[0.0] * 10, [5.0] * 10, [0.0] * 9 + [1.0]])
def test_degenerate_loads(loads: list[float]) -> None:
    groups, results = balance(minibatches_of([3] * 10, loads), BalanceConfig(4))
    assert len(groups) == 10 and np.isfinite(results["imbalance"])


def test_a_cut_minibatch_keeps_its_columns_in_step() -> None:
    frame = minibatches_of([6], [9.0], level=[list("abcdef")])
    groups, results = balance(frame, BalanceConfig(prompts_per_group=4))
    assert results["num_split"] == 1
    parts = {
        tuple(ids): "".join(level)
        for ids, level in groups.select("prompt_ids", "level").iter_rows()
    }
    assert parts == {(0, 1): "ab", (2, 3, 4, 5): "cdef"}
    assert groups["num_samples"].to_list() == [8, 4]
    assert groups["predicted_tokens"].to_list() == pytest.approx([6.0, 3.0])


def test_a_table_of_tails_alone_is_refused(tmp_path: Path) -> None:
    frame = minibatches_of([2], [1.0]).with_columns(
        kind=pl.lit("tail"), prompt_ids=pl.Series([[]], dtype=pl.List(pl.Int64))
    )
    frame.write_parquet(tmp_path / "m.parquet")
    with pytest.raises(AspError, match="holds no head minibatch"):
        run(str(tmp_path / "m.parquet"), str(tmp_path / "g.parquet"), BalanceConfig())


def test_groups_of_heads_with_budgets_are_representative() -> None:
    """All take 50 tokens' time; their whole responses differ, and that is what is made even."""
    frame = minibatches_of([1] * 8, [50.0] * 8).with_columns(
        token_budget=pl.lit(50), predicted_tokens=pl.Series([float(i) for i in range(1, 9)])
    )
    config = BalanceConfig(group_size=2)
    assert config.for_table(frame).load == "tokens"
    groups, _ = balance(conform(frame, Minibatches, "x", complete_minibatches), config)
    tokens = groups.group_by("group_id").agg(pl.sum("predicted_tokens"))["predicted_tokens"]
    assert tokens.to_list() == [9.0] * 4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("grouping", [{"group_size": 4}, {"prompts_per_group": 100}])
def test_each_epoch_holds_each_prompt_once(method: str | None, grouping: dict[str, int]) -> None:
    minibatches = random_minibatches(71, seed=3)
    config = BalanceConfig(**grouping, method=method, epochs=3)  # type: ignore[arg-type]
    groups, results = balance(minibatches, config)
    conform(groups, Groups, "x")
    total = int(minibatches["num_prompts"].sum())
    for _, epoch in groups.group_by("epoch"):
        assert sorted(epoch["prompt_ids"].explode().to_list()) == list(range(total))
    assert results["num_epochs"] == 3


def test_epochs_differ_and_are_equally_good() -> None:
    rng = np.random.default_rng(0)
    frame = minibatches_of([1] * 128, rng.lognormal(3, 0.6, 128).tolist())
    groups, results = balance(frame, BalanceConfig(8, epochs=4, seed=5))
    orders = [
        tuple(epoch["minibatch_id"]) for _, epoch in groups.group_by("epoch", maintain_order=True)
    ]
    assert len(set(orders)) == 4
    assert results["gap"] < 0.001 and results["largest_running_deviation"] <= 1
    alone, _ = balance(frame, BalanceConfig(8))
    assert tuple(alone["minibatch_id"]) == orders[0]  # the first epoch does not depend on chance
    assert groups.equals(balance(frame, BalanceConfig(8, epochs=4, seed=5))[0])
    other = balance(frame, BalanceConfig(8, epochs=4, seed=6))[0]
    assert not groups.equals(other)


def test_epochs_of_a_small_solved_problem_differ_in_order() -> None:
    frame = minibatches_of([1] * 24, list(range(1, 25)))
    groups, _ = balance(frame, BalanceConfig(4, epochs=3))
    orders = [
        tuple(epoch["minibatch_id"]) for _, epoch in groups.group_by("epoch", maintain_order=True)
    ]
    assert len(set(orders)) == 3


def test_instances_finish_together() -> None:
    frame = random_minibatches(64, seed=1)
    groups, results = balance(frame, BalanceConfig(16, instance_speeds=(1.0, 1.0, 2.0)))
    conform(groups, Groups, "x")
    seconds = groups.group_by("group_id", "instance").agg(pl.col("predicted_seconds").sum())
    speed = seconds["instance"].replace_strict({0: 1.0, 1: 1.0, 2: 2.0})
    finish = seconds["predicted_seconds"] / speed
    by_group = (
        seconds.with_columns(finish=finish)
        .group_by("group_id")
        .agg((pl.col("finish").max() / pl.col("finish").min() - 1).alias("apart"))
    )
    assert by_group["apart"].max() < 0.1
    assert 0 <= results["latest_instance"] < 0.05


def test_a_cut_leaves_columns_that_hold_no_value_a_prompt_as_they_are() -> None:
    """`constant` has six entries, as the first minibatch has prompts, but not by prompt."""
    frame = minibatches_of([6, 2], [9.0, 1.0]).with_columns(
        constant=pl.lit([[1, 2, 3, 4, 5, 6]]),
        array=pl.lit([1, 2, 3, 4, 5, 6]).cast(pl.Array(pl.Int64, 6)),
        time=pl.lit(1, dtype=pl.Int64).cast(pl.Datetime("ns")),
    )
    frame = frame.with_columns(pl.col("constant").list.explode().implode().over("minibatch_id"))
    groups, results = balance(frame, BalanceConfig(prompts_per_group=3))
    assert results["num_split"] > 0
    for column in ("constant", "array", "time"):
        assert groups[column].dtype == frame[column].dtype
        assert groups[column].n_unique() == 1 and groups[column][0] is not None
    assert groups["time"].cast(pl.Int64).to_list() == [1] * len(groups)


def test_a_cut_beside_the_largest_id() -> None:
    frame = minibatches_of([6], [9.0]).with_columns(minibatch_id=pl.lit(2**63 - 1))
    groups, _ = balance(frame, BalanceConfig(prompts_per_group=4))
    assert sorted(groups["minibatch_id"]) == [0, 2**63 - 1]


def test_loads_that_cannot_be_added_up_are_refused() -> None:
    with pytest.raises(AspError, match=r"column 'predicted_tokens' holds 1e\+308"):
        balance(minibatches_of([1, 1], [1e308, 1e308]), BalanceConfig())


@pytest.mark.parametrize("model", [{"step_seconds": "a"}, {"step_seconds": -1}, [1], None])
def test_a_cost_model_that_is_none_is_not_used(model: object) -> None:
    origin = Provenance("partition", "minibatches/1", {"cost_model": model})
    assert recorded_cost_model(origin) == CostModel()


def test_a_remainder_of_a_few_prompts_is_not_judged() -> None:
    """260 prompts in train batches of 128: the last holds 4, yet a whole longest response."""
    frame = minibatches_of([32] * 8 + [4], [10.0] * 8 + [10.0])
    _, results = balance(frame, BalanceConfig(prompts_per_group=128))
    assert results["imbalance"] == 0 and results["gap"] == 0


@settings(max_examples=6)
@given(st.integers(0, 99))
def test_the_bound_among_full_train_batches_is_one(seed: int) -> None:
    frame = random_minibatches(31, seed, 24, 40)
    _, results = balance(frame, BalanceConfig(prompts_per_group=128))
    assert 0 <= results["imbalance_bound"] <= results["imbalance"] + 1e-9
    assert results["gap"] >= 0
