"""A schedule spelled out row by row, and its match with the prompt file."""

from collections.abc import Callable

import polars as pl
import pytest

from stages.emit.plan import check_against, spans, spell_out
from stages.tables.derived import complete_groups
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Groups


@pytest.fixture
def make_plan(make_groups: Callable[..., pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    def make(*arguments: object, **options: object) -> pl.DataFrame:
        groups = make_groups(*arguments, **options)
        return spell_out(conform(groups, Groups, "groups", complete_groups))

    return make


def hashes_of(plan: pl.DataFrame) -> list[str]:
    """The hashes of the file that was scheduled, in its order."""
    known = plan.unique("prompt_id").sort("prompt_id")["prompt_hash"]
    return [str(value) for value in known]


def test_a_row_a_prompt_in_order(make_plan: Callable[..., pl.DataFrame]) -> None:
    plan = make_plan([[2, 3], [4]])
    assert plan["minibatch_id"].to_list() == [0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert plan["group_id"].to_list() == [0] * 5 + [1] * 4
    assert sorted(plan["prompt_id"]) == list(range(9))
    assert not plan["is_repeat"].any()


def test_spans_tile_the_rows(make_plan: Callable[..., pl.DataFrame]) -> None:
    plan = make_plan([[2, 3], [4]], num_epochs=2)
    for by, sizes in {("group_id",): [5, 4], ("group_id", "minibatch_id"): [2, 3, 4]}.items():
        found = spans(plan, *by)
        assert found["num_rows"].to_list() == sizes * 2
        ends = (found["first_row"] + found["num_rows"]).to_list()
        assert found["first_row"].to_list() == [0, *ends[:-1]] and ends[-1] == len(plan)


def test_the_scheduled_file_matches(
    make_plan: Callable[..., pl.DataFrame], caplog: pytest.LogCaptureFixture
) -> None:
    plan = make_plan([[2, 3], [4]], num_epochs=3)
    check_against(plan, hashes_of(plan), "g", "p")
    assert not caplog.records


@pytest.mark.parametrize("num_rows", [8, 10, 1])
def test_another_number_of_rows_is_refused(
    make_plan: Callable[..., pl.DataFrame], num_rows: int
) -> None:
    plan = make_plan([[2, 3], [4]])
    hashes = (hashes_of(plan) * 2)[:num_rows]
    with pytest.raises(AspError, match=rf"p\.parquet: has {num_rows} rows, but .* 9 prompts"):
        check_against(plan, hashes, "groups.parquet", "p.parquet")


def test_a_schedule_of_some_rows_names_the_first_that_is_missing(
    make_plan: Callable[..., pl.DataFrame],
) -> None:
    plan = make_plan([[2, 3], [4]], num_epochs=2)
    lacking = plan.filter((pl.col("epoch") == 0) | (pl.col("prompt_id") != 4))
    with pytest.raises(AspError, match=r"epoch 1, and row 4 \(from 0\) is not scheduled"):
        check_against(lacking, hashes_of(plan), "g", "p")


def test_a_reordered_file_is_refused_with_the_first_row_and_both_hashes(
    make_plan: Callable[..., pl.DataFrame],
) -> None:
    plan = make_plan([[2, 3], [4]])
    hashes = hashes_of(plan)
    hashes[3], hashes[6] = hashes[6], hashes[3]
    with pytest.raises(AspError) as refused:
        check_against(plan, hashes, "groups.parquet", "p.parquet")
    assert "2 of 9 prompts differ, first row 3 " in str(refused.value)
    assert f"hash {hashes[3]} here and {hashes[6]} there" in str(refused.value)
    assert "`asp predict`" in str(refused.value)


def test_a_match_that_cannot_be_checked_is_said(
    make_plan: Callable[..., pl.DataFrame], caplog: pytest.LogCaptureFixture
) -> None:
    plan = make_plan([[2, 3], [4]], is_hashed=False)
    check_against(plan, ["00" * 8] * 9, "g", "p")
    assert "9 of 9 scheduled prompts carry no hash" in caplog.text
