"""The minibatches table under budgets: what stays, what stops, what goes on."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest

from stages.costs.model import CostModel
from stages.lengths.table import complete
from stages.partition.budgets import BudgetConfig
from stages.partition.config import PartitionConfig
from stages.partition.stage import partition
from stages.tables.io import conform
from stages.tables.schemas import Lengths, Minibatches

Make = Callable[..., pl.DataFrame]
CONFIG = PartitionConfig(
    batch_size=8, samples_per_prompt=4, budgets=BudgetConfig(max_lag=4, prefill_cost=0.02)
)


def completed(frame: pl.DataFrame) -> pl.DataFrame:
    return conform(frame, Lengths, "x", partial(complete, samples_per_prompt=4))


@pytest.fixture
def lengths(make_lengths: Make) -> pl.DataFrame:
    return completed(make_lengths(256, sigma=1.0))


def test_heads_keep_the_prompts_and_tails_reserve_places(lengths: pl.DataFrame) -> None:
    without, _ = partition(lengths, replace(CONFIG, budgets=BudgetConfig()))
    table, results = partition(lengths, CONFIG)
    conform(table, Minibatches, "x")
    heads = table.filter(pl.col("kind").cast(pl.String) == "head")
    tails = table.filter(pl.col("kind").cast(pl.String) == "tail")
    kept = ["minibatch_id", "prompt_ids", "num_prompts", "num_samples", "predicted_tokens"]
    assert heads.select(kept).equals(without.select(kept))
    assert sorted(heads["prompt_ids"].explode()) == list(range(256))
    assert len(tails) == results["num_tails"] > 0
    assert tails["prompt_ids"].list.len().sum() == 0
    ladder = results["token_budgets"]
    assert isinstance(ladder, list)
    assert heads["token_budget"].unique().to_list() == ladder[:1]
    by_round = tails.group_by("round", maintain_order=True).agg(pl.first("token_budget"))
    assert by_round["round"].to_list() == list(range(1, len(ladder) + 1))
    assert by_round["token_budget"].to_list() == [*ladder[1:], None]


def test_every_expected_token_is_generated_once(lengths: pl.DataFrame) -> None:
    table, _ = partition(lengths, CONFIG)
    heads = table.filter(pl.col("round") == 0)
    tails = table.filter(pl.col("round") > 0)
    held = pl.col("predicted_utilization") * pl.col("num_samples") * pl.col("predicted_longest")
    in_heads = float(heads.select(held.sum()).item())
    in_tails = float(tails["predicted_tokens"].sum())
    assert in_heads + in_tails == pytest.approx(float(heads["predicted_tokens"].sum()), rel=0.01)


def test_seconds_add_up_to_what_the_plan_says(lengths: pl.DataFrame) -> None:
    table, results = partition(lengths, CONFIG)
    assert table["predicted_seconds"].sum() == pytest.approx(results["device_seconds"], rel=0.001)
    without, _ = partition(lengths, replace(CONFIG, budgets=BudgetConfig()))
    expected = without["predicted_seconds"].sum()
    assert results["device_seconds_without"] == pytest.approx(expected, rel=0.005)


def test_users_columns_are_empty_in_tails(lengths: pl.DataFrame) -> None:
    named = lengths.with_columns(level=pl.lit("hard"))  # a column that no schema knows
    table, _ = partition(named, CONFIG)
    tails = table.filter(pl.col("round") > 0)
    assert tails["level"].to_list() == [[]] * len(tails)
    assert table.filter(pl.col("round") == 0)["level"].list.len().sum() == 256


def test_known_prefill_is_paid(lengths: pl.DataFrame) -> None:
    """A cost model that knows prefill decides where no --prefill-cost is given."""
    model = CostModel(prefill_seconds=1.0)
    known = replace(CONFIG, cost_model=model, budgets=BudgetConfig(max_lag=4))
    _, results = partition(lengths.with_columns(prompt_tokens=pl.lit(10, dtype=pl.Int64)), known)
    assert results["token_budgets"] == []
    assert results["prefill_cost"] == pytest.approx(1.0 / (0.02 / 32 + 8e-5))


def test_memory_limits_a_tail(make_lengths: Make) -> None:
    lengths = completed(make_lengths(256, sigma=1.0).with_columns(prompt_tokens=10))
    cap = int(lengths["cap"].max())  # type: ignore[arg-type]
    limit = 16 * (10 + cap)
    table, _ = partition(lengths, replace(CONFIG, kv_tokens=limit))
    tails = table.filter(pl.col("round") > 0)
    assert len(tails)
    assert int(tails["num_samples"].max()) <= 16  # type: ignore[arg-type]
    assert np.all(tails["num_samples"].to_numpy() >= 1)
