"""Lengths to minibatches: every prompt once, sizes as promised, columns right."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.lengths.table import complete
from stages.partition.stage import PartitionConfig, partition, run, sizes_for
from stages.tables.errors import AspError, log
from stages.tables.io import conform
from stages.tables.schemas import Lengths, Minibatches

Make = Callable[..., pl.DataFrame]
METHODS = ["exact", "fixed", "random"]


def lengths_of(tokens: list[float], **columns: object) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "prompt_id": range(len(tokens)),
            "mu": np.log(np.maximum(tokens, 1e-9)),
            "sigma": [0.0] * len(tokens),
            "cap": [100_000] * len(tokens),
            **columns,
        }
    )
    return conform(frame, Lengths, "x", complete)


@pytest.mark.parametrize(
    ("num_prompts", "batch_size", "slack", "expected"),
    [
        (100, 32, 0.25, (24, 40, 3)),
        (1000, 32, 0.25, (24, 40, 31)),
        (48, 32, 0.25, (24, 40, 2)),  # 1.5 minibatches: the larger count
        (10, 10, 0.1, (9, 11, 1)),  # 10 x (1 - 0.1) is 9 whatever floating point says
        (1, 32, 1.0, (1, 64, 1)),
        (64, 32, 0.0, (32, 32, 2)),
        (120, 1, 1.0, (1, 2, 120)),
    ],
)
def test_sizes_by_hand(
    num_prompts: int, batch_size: int, slack: float, expected: tuple[int, int, int]
) -> None:
    sizes = sizes_for(num_prompts, batch_size, slack)
    assert (sizes.lo, sizes.hi, sizes.count) == expected and sizes.is_within_slack


@pytest.mark.parametrize(
    ("num_prompts", "batch_size", "slack", "expected"),
    [
        (1, 32, 0.25, (1, 1, 1)),
        (23, 32, 0.25, (23, 23, 1)),
        (41, 32, 0.25, (20, 21, 2)),
        (65, 32, 0.0, (21, 22, 3)),
    ],
)
def test_sizes_where_slack_admits_no_partition(
    num_prompts: int, batch_size: int, slack: float, expected: tuple[int, int, int]
) -> None:
    sizes = sizes_for(num_prompts, batch_size, slack)
    assert (sizes.lo, sizes.hi, sizes.count) == expected and not sizes.is_within_slack


@given(st.integers(1, 400), st.integers(1, 50), st.floats(0, 1))
def test_the_count_is_feasible_and_nearest(num_prompts: int, batch_size: int, slack: float) -> None:
    sizes = sizes_for(num_prompts, batch_size, slack)
    assert sizes.count * sizes.lo <= num_prompts <= sizes.count * sizes.hi
    if sizes.is_within_slack:
        feasible = [
            m for m in range(1, num_prompts + 1) if m * sizes.lo <= num_prompts <= m * sizes.hi
        ]
        nearest = min(feasible, key=lambda m: (abs(m - num_prompts / batch_size), -m))
        assert sizes.count == nearest


@given(
    st.sampled_from([1, 7, 31, 32, 33, 97, 211]),
    st.sampled_from([1, 2, 8, 32]),
    st.sampled_from([0.0, 0.1, 0.25, 1.0]),
    st.sampled_from(METHODS),
    st.sampled_from(["expected-padding", "utilization", "padding", "seconds"]),
    st.sampled_from([None, "upper", "longest", "expected"]),
)
def test_each_prompt_stands_in_exactly_one_minibatch(
    num_prompts: int, batch_size: int, slack: float, method: str, objective: str, by: str | None
) -> None:
    rng = np.random.default_rng(num_prompts)
    spread = rng.choice([0.0, 0.5]) * rng.random(num_prompts)
    frame = lengths_of(list(rng.lognormal(4, 1, num_prompts)), sigma=spread)
    config = PartitionConfig(batch_size, slack, None, objective, by, method)  # type: ignore[arg-type]
    minibatches, results = partition(frame, config)
    conform(minibatches, Minibatches, "x")
    assert sorted(minibatches["prompt_ids"].explode().to_list()) == list(range(num_prompts))
    sizes = minibatches["num_prompts"].to_list()
    assert results["num_minibatches"] == len(sizes)
    wanted = sizes_for(num_prompts, batch_size, slack)
    if method == "exact":
        assert min(sizes) >= wanted.lo and max(sizes) <= wanted.hi
        assert objective == "seconds" or len(sizes) == wanted.count
    else:
        assert set(sizes[:-1]) <= {batch_size} and sizes[-1] <= batch_size


def test_columns_by_hand() -> None:
    """Lengths 1 1 2 | 10 10 20, two samples each, no spread: everything can be counted."""
    frame = lengths_of([10, 1, 20, 2, 1, 10], samples_per_prompt=[2] * 6, level=list("abcdef"))
    config = PartitionConfig(batch_size=3, slack=0.0, objective="utilization")
    minibatches, results = partition(frame, config)
    assert minibatches["prompt_ids"].to_list() == [[1, 4, 3], [0, 5, 2]]
    assert minibatches["level"].to_list() == [list("bed"), list("afc")]
    assert minibatches["num_samples"].to_list() == [6, 6]
    assert minibatches["predicted_tokens"].to_list() == pytest.approx([8.0, 80.0])
    assert minibatches["predicted_longest"].to_list() == pytest.approx([2.0, 20.0])
    assert minibatches["predicted_utilization"].to_list() == pytest.approx([8 / 12, 80 / 120])
    seconds = [2 * (0.02 + 6 * 8e-5), 20 * (0.02 + 6 * 8e-5)]
    assert minibatches["predicted_seconds"].to_list() == pytest.approx(seconds)
    assert results["objective_value"] == pytest.approx(2 / 3)
    assert results["gap"] == 0.0


def test_equal_lengths_are_ordered_by_prompt_id() -> None:
    frame = lengths_of([5.0] * 9)[::-1]
    minibatches, _ = partition(frame, PartitionConfig(batch_size=3, slack=0.0))
    assert minibatches["prompt_ids"].to_list() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_by_longest_sorts_by_the_longest_of_n(make_lengths: Make) -> None:
    frame = make_lengths(2).with_columns(
        mu=pl.Series([4.0, 3.9]), sigma=pl.Series([0.0, 0.8]), samples_per_prompt=pl.lit(8)
    )
    frame = conform(frame, Lengths, "x", complete)
    config = PartitionConfig(batch_size=1, slack=0.0, by="longest")
    assert partition(frame, config)[0]["prompt_ids"].to_list() == [[0], [1]]
    config = PartitionConfig(batch_size=1, slack=0.0, by="expected")
    expected = frame["expected_tokens"]
    first = 0 if expected[0] < expected[1] else 1
    assert partition(frame, config)[0]["prompt_ids"].to_list()[0] == [first]


def test_rows_that_differ_in_n_need_the_flag(tmp_path: Path, make_lengths: Make) -> None:
    source = tmp_path / "l.parquet"
    make_lengths(4).with_columns(samples_per_prompt=pl.Series([1, 2, 1, 1])).write_parquet(source)
    with pytest.raises(AspError, match="--samples-per-prompt N"):
        run(str(source), str(tmp_path / "m"), PartitionConfig())
    run(str(source), str(tmp_path / "m"), PartitionConfig(samples_per_prompt=4))


@pytest.mark.parametrize("objective", ["expected-padding", "utilization"])
def test_golden(make_lengths: Make, objective: str) -> None:
    """Guards the path from lengths to cuts; the programme itself is checked by brute force."""
    frame = conform(make_lengths(200, seed=1), Lengths, "x", complete)
    minibatches, results = partition(frame, PartitionConfig(objective=objective))  # type: ignore[arg-type]
    sizes, value = GOLDEN[objective]
    assert minibatches["num_prompts"].to_list() == sizes
    assert results["objective_value"] == pytest.approx(value, rel=1e-9)


GOLDEN = {
    "expected-padding": ([40, 40, 40, 31, 25, 24], 124941.11267020748),
    "utilization": ([39, 40, 30, 25, 29, 37], 0.7358641657369819),
}


@pytest.mark.parametrize(
    "name", ["minibatch_id", "prompt_ids", "token_budget", "epoch", "instance"]
)
def test_extra_columns_with_a_name_of_later_tables_are_left_out_and_named(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "propagate", True)
    frame = lengths_of([1.0, 2.0, 3.0], level=["a", "b", "c"], **{name: ["x", "y", "z"]})
    minibatches, _ = partition(frame, PartitionConfig(2))
    conform(minibatches, Minibatches, "x")
    assert minibatches["level"].explode().to_list() == ["a", "b", "c"]
    assert f"column '{name}' of the lengths table is left out" in caplog.text


def test_what_cannot_be_added_up_is_refused() -> None:
    with pytest.raises(AspError, match=r"expected tokens within cap.*expected_tokens=1e\+308"):
        partition(lengths_of([1.0] * 3, expected_tokens=[1e308] * 3), PartitionConfig(2))
    with pytest.raises(AspError, match=r"4611686018427387904 samples_per_prompt for 3 prompts"):
        partition(lengths_of([1.0] * 3, samples_per_prompt=[2**62] * 3), PartitionConfig(2))


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_size_beyond_all_prompts(method: str) -> None:
    minibatches, _ = partition(lengths_of([1.0] * 3), PartitionConfig(2**63 - 1, method=method))  # type: ignore[arg-type]
    assert minibatches["num_prompts"].to_list() == [3]
