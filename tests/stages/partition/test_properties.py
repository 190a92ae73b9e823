"""What holds of every cut whatever the lengths are: conservation, invariance, monotony, bounds."""

import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stages.lengths.table import complete
from stages.partition.programme import Cost, cut_into
from stages.partition.stage import PartitionConfig, partition, sizes_for

OBJECTIVES = ["expected-padding", "utilization", "padding", "seconds"]
MAXIMISED = ["utilization"]

prompts = st.tuples(  # mu, sigma: few values, so that prompts tie
    st.sampled_from([-2.0, 0.0, 1.5, 3.0, 4.5, 6.0, 7.5]) | st.floats(-1, 8),
    st.sampled_from([0.0, 0.5, 1.0]),
)
some_prompts = st.lists(prompts, min_size=1, max_size=40)
few = settings(max_examples=20)
objectives = st.sampled_from(OBJECTIVES)
batch_sizes = st.integers(1, 12)
slacks = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])


def table_of(rows: list[tuple[float, float]], **columns: Any) -> pl.DataFrame:
    """A complete lengths table, but not a validated one: that takes longer than the cut."""
    mu, sigma = zip(*rows, strict=True)
    nulls = {"prompt_hash": pl.lit(None, pl.String), "sample_sigma": pl.lit(None, pl.Float64)}
    frame = pl.DataFrame(
        {"prompt_id": range(len(rows)), "mu": mu, "sigma": sigma, "cap": 1000} | columns
    )
    return complete(frame.with_columns(**nulls))


def config_of(batch_size: int, slack: float, objective: str) -> PartitionConfig:
    return PartitionConfig(batch_size, slack, objective=objective)  # type: ignore[arg-type]


def is_as_good(value: float, other: float, objective: str) -> bool:
    """Whether a value is no worse than another, up to rounding."""
    sign = -1 if objective in MAXIMISED else 1
    return sign * value <= sign * other + 1e-9 * abs(other)


@few
@given(some_prompts, batch_sizes, slacks, objectives, st.randoms(use_true_random=False))
def test_each_prompt_once_with_what_belongs_to_it(
    rows: list[tuple[float, float]], batch_size: int, slack: float, objective: str, random: Any
) -> None:
    frame = table_of(rows, name=[f"prompt {k}" for k in range(len(rows))])
    shuffled = frame[random.sample(range(len(rows)), len(rows))]
    minibatches, _ = partition(shuffled, config_of(batch_size, slack, objective))
    held = minibatches.select("prompt_ids", "name").explode("prompt_ids", "name")
    assert dict(held.iter_rows()) == {k: f"prompt {k}" for k in range(len(rows))}
    assert len(held) == len(rows)
    sizes, wanted = minibatches["num_prompts"], sizes_for(len(rows), batch_size, slack)
    assert wanted.lo <= sizes.min() and sizes.max() <= wanted.hi  # type: ignore[operator]
    assert objective == "seconds" or len(sizes) == wanted.count


@few
@given(some_prompts, batch_sizes, slacks, objectives, st.integers(1, 4))
def test_the_bound_is_never_on_the_wrong_side(
    rows: list[tuple[float, float]], batch_size: int, slack: float, objective: str, n: int
) -> None:
    frame = table_of(rows, samples_per_prompt=n)
    _, results = partition(frame, config_of(batch_size, slack, objective))
    value, bound = float(results["objective_value"]), float(results["objective_bound"])  # type: ignore[arg-type]
    assert is_as_good(bound, value, objective)
    assert results["gap"] == pytest.approx(abs(value - bound) / max(abs(bound), 1e-300), abs=1e-9)
    assert 0 <= float(results["gap"]) < 1e-9  # type: ignore[arg-type]  # so few are cut exactly


@few
@given(some_prompts, batch_sizes, objectives, slacks, slacks)
def test_more_slack_is_never_worse(
    rows: list[tuple[float, float]], batch_size: int, objective: str, one: float, other: float
) -> None:
    frame, (less, more) = table_of(rows), sorted((one, other))
    tight, loose = (sizes_for(len(rows), batch_size, slack) for slack in (less, more))
    # Sizes may need another count of minibatches, which is another question; seconds is free.
    is_free = objective == "seconds" and tight.is_within_slack
    assume(loose.is_within_slack and (is_free or tight.count == loose.count))
    values = [
        float(partition(frame, config_of(batch_size, slack, objective))[1]["objective_value"])  # type: ignore[arg-type]
        for slack in (more, less)
    ]
    assert is_as_good(*values, objective)


@few
@given(some_prompts, batch_sizes, slacks, objectives, st.randoms(use_true_random=False))
def test_which_prompt_has_which_length_does_not_matter(
    rows: list[tuple[float, float]], batch_size: int, slack: float, objective: str, random: Any
) -> None:
    config = config_of(batch_size, slack, objective)
    minibatches, results = partition(table_of(rows), config)
    dealt = random.sample(rows, len(rows))
    others, other_results = partition(table_of(dealt), config)
    assert results == other_results
    for column in ("num_prompts", "predicted_tokens", "predicted_longest", "predicted_seconds"):
        assert minibatches[column].to_list() == others[column].to_list()
    # Equal prompts stand side by side, in the order of their numbers.
    ids = others["prompt_ids"].explode().to_list()
    for _, equal in itertools.groupby(ids, key=lambda k: dealt[k]):
        run = list(equal)
        assert run == sorted(run)


@few
@given(some_prompts, batch_sizes, slacks, objectives, st.sampled_from([2, 3, 10, 1000]))
def test_scaled_lengths_scale_the_value(
    rows: list[tuple[float, float]], batch_size: int, slack: float, objective: str, factor: int
) -> None:
    """All tokens times a factor: a utilisation stays; steps, and so seconds, are as many more."""
    config = config_of(batch_size, slack, objective)
    minibatches, results = partition(table_of(rows), config)
    longer = table_of([(mu + math.log(factor), sigma) for mu, sigma in rows], cap=1000 * factor)
    others, other_results = partition(longer, config)
    grows = 1 if objective == "utilization" else factor
    exact = float(results["objective_value"]) * grows  # type: ignore[arg-type]
    assert other_results["objective_value"] == pytest.approx(exact, rel=1e-9)
    assert len(minibatches) == len(others)


@given(
    st.lists(st.integers(0, 2000), min_size=12, max_size=60),
    st.integers(2, 6),
    st.sampled_from(["utilization", "padding", "seconds"]),
    st.sampled_from([0.25, 2.0, 1024.0]),
)
def test_scaled_lengths_keep_the_cut(
    tokens: list[int], count: int, objective: str, factor: float
) -> None:
    """Powers of two, which floats hold exactly: the same ends, not just as good ones."""
    costs = {
        "utilization": lambda key: Cost.utilization(key, key),
        "padding": Cost.padding,
        "seconds": lambda key: Cost.seconds(key, 0.02, 0.001),
    }
    key = np.sort(np.array(tokens, dtype=float))
    lo, hi = len(key) // count // 2, 2 * len(key) // count
    one, scaled = (
        cut_into(costs[objective](k), max(lo, 1), hi, count) for k in (key, factor * key)
    )
    assert one.ends.tolist() == scaled.ends.tolist()
    assert scaled.total == (1 if objective == "utilization" else factor) * one.total


@few
@given(
    some_prompts,
    st.integers(2, 6),
    st.integers(1, 5),
    st.sampled_from(["expected-padding", "padding"]),
)
def test_minibatches_of_one_pad_least(
    rows: list[tuple[float, float]], batch_size: int, n: int, objective: str
) -> None:
    """A prompt alone waits for the longest of its own samples, in company for others' too."""
    frame = table_of(rows, samples_per_prompt=n)
    values = [
        float(partition(frame, config_of(size, 0.5, objective))[1]["objective_value"])  # type: ignore[arg-type]
        for size in (1, batch_size)
    ]
    assert is_as_good(*values, objective)
