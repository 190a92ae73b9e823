"""What predictions and order cost, worked by hand."""

import polars as pl
import pytest

from rollout.verify.difference import compare
from rollout.verify.order import follow
from rollout.verify.planned import Planned
from stages.tables.prompt_survey import PromptFile

ROWS = pl.DataFrame(
    [(0, 0, 0, "a"), (0, 0, 0, "b"), (0, 0, 1, "c"), (1, 0, 2, "d"), (1, 0, 2, "e")],
    schema=["batch", "epoch", "minibatch_id", "prompt_hash"],
    orient="row",
)
MINIBATCHES = pl.DataFrame(
    {
        "epoch": [0, 0, 0],
        "minibatch_id": [0, 1, 2],
        "num_prompts": [2, 1, 2],
        "predicted_tokens": [30.0, 50.0, 60.0],
        "predicted_longest": [20.0, 50.0, 40.0],
    }
)
LENGTHS = {"a": 10, "b": 30, "c": 40, "d": 30, "e": 50}


def planned(rows: pl.DataFrame = ROWS) -> Planned:
    prompts = PromptFile(pl.DataFrame({"prompt_hash": list("abcde")}), list("abcde"), "p", "0")
    return Planned("s", "0", rows, MINIBATCHES, prompts, 1, False, None, {})


def log_of(*steps: str) -> pl.DataFrame:
    rows = [(n + 1, name, LENGTHS[name]) for n, names in enumerate(steps) for name in names]
    return pl.DataFrame(rows, schema=["step", "prompt_hash", "response_tokens"], orient="row")


def test_steps_as_planned_cost_nothing_by_their_order() -> None:
    plan, log = planned(), log_of("abc", "ed")
    found = compare(plan, log, follow(plan.rows, log, 1))
    assert found is not None
    assert found.predicted.utilization == pytest.approx(140 / (2 * 20 + 50 + 2 * 40))
    assert found.predicted.excess == pytest.approx(80 / 70 - 1)
    assert found.planned.utilization == pytest.approx(160 / (2 * 30 + 40 + 2 * 50))
    assert found.planned.excess == 0
    assert found.trained == found.planned
    assert found.tokens_ratio == pytest.approx(160 / 140)
    assert found.steps.rows() == [(0, 80.0, 80.0), (1, 60.0, 80.0)]


def test_prompts_of_another_batch_take_the_places_left() -> None:
    plan, log = planned(), log_of("abd", "ce")
    found = compare(plan, log, follow(plan.rows, log, 1))
    assert found is not None
    assert found.planned.utilization == pytest.approx(0.8)
    assert found.trained.utilization == pytest.approx(160 / (2 * 30 + 30 + 2 * 50))
    assert found.trained.excess == pytest.approx(90 / 80 - 1)


def test_a_minibatch_cut_by_a_train_batch_is_judged_in_two_pieces() -> None:
    rows = ROWS.with_columns(batch=pl.Series([0, 1, 1, 2, 2]))
    plan, log = planned(rows), log_of("a", "bc", "de")
    found = compare(plan, log, follow(plan.rows, log, 1))
    assert found is not None
    assert found.steps["predicted_tokens"].to_list() == [15.0, 15.0 + 50.0, 60.0]
    assert found.planned.utilization == pytest.approx(160 / (10 + 30 + 40 + 2 * 50))


def test_minibatches_with_a_prompt_that_the_log_lacks_are_left_out() -> None:
    plan, log = planned(), log_of("ac", "de")
    found = compare(plan, log, follow(plan.rows, log, 1))
    assert found is not None
    assert found.tokens_ratio == pytest.approx(120 / 110)
    nothing = log_of("a")
    assert compare(plan, nothing, follow(plan.rows, nothing, 1)) is None
