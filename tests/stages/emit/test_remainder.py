"""Prompts that fill no train batch: every one accounted for, whatever the rule."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.emit.batches import TrainBatch, choose_train_batch, count_straddling
from stages.emit.plan import spans, spell_out
from stages.emit.remainder import treat
from stages.tables.derived import complete_groups
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Groups

NOTHING_KNOWN: dict[str, Any] = dict.fromkeys(("prompts_per_group", "batch_size", "group_size"))


@pytest.fixture(scope="session")
def make_plan(make_groups: Callable[..., pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    def make(sizes: list[list[int]], num_epochs: int = 1) -> pl.DataFrame:
        groups = make_groups(sizes, num_epochs)
        return spell_out(conform(groups, Groups, "groups", complete_groups))

    return make


def test_worked_case(make_plan: Callable[..., pl.DataFrame]) -> None:
    """9 prompts an epoch in train batches of 4: one is left over."""
    plan = make_plan([[2, 2], [4], [1]], num_epochs=2)
    ids = plan["prompt_id"].to_list()

    kept = treat(plan, 4, "keep")
    assert kept.plan["prompt_id"].to_list() == ids
    assert (kept.num_touched, kept.account) == (2, [{"epoch": 1, "first_row": 16, "num_rows": 2}])

    repeated = treat(plan, 4, "repeat")
    assert repeated.plan["prompt_id"].to_list() == [*ids[:9], *ids[:3], *ids[9:], *ids[9:12]]
    assert repeated.num_touched == 6
    assert repeated.account == [
        {"epoch": 0, "first_row": 9, "num_rows": 3},
        {"epoch": 1, "first_row": 21, "num_rows": 3},
    ]

    dropped = treat(plan, 4, "drop")
    assert dropped.plan["prompt_id"].to_list() == [*ids[:8], *ids[9:17]]
    assert dropped.num_touched == 2
    assert dropped.account == [
        {"epoch": 0, "prompt_ids": [ids[8]]},
        {"epoch": 1, "prompt_ids": [ids[17]]},
    ]


def test_repeat_starts_over_where_a_batch_is_larger_than_an_epoch(
    make_plan: Callable[..., pl.DataFrame],
) -> None:
    plan = make_plan([[3]])
    first, second, third = plan["prompt_id"]
    repeated = treat(plan, 8, "repeat").plan["prompt_id"].to_list()
    assert repeated == [first, second, third, first, second, third, first, second]


def test_drop_that_would_leave_nothing_is_refused(
    make_plan: Callable[..., pl.DataFrame],
) -> None:
    with pytest.raises(AspError, match="epoch 0 has 3 prompts, less than one train batch of 4"):
        treat(make_plan([[3]]), 4, "drop")


@pytest.mark.parametrize(
    ("sizes", "settings", "asked", "expected"),
    [
        ([[4, 4], [8]], {}, 5, (5, "--train-batch-size")),
        ([[4, 4], [8]], {"prompts_per_group": 16}, None, (16, "balance --prompts-per-group")),
        ([[4, 4], [8], [3]], {}, None, (8, "groups")),
        ([[4, 4]], {}, None, (8, "groups")),
        ([[4, 4], [9]], {"batch_size": 4, "group_size": 2}, None, (8, "nominal: batch")),
        ([[4, 4], [9]], {"batch_size": 32, "group_size": 8}, None, (17, "nominal: batch")),
        ([[4, 4], [7], [8]], {}, None, (8, "nominal: mean")),
    ],
)
def test_the_train_batch_comes_from_the_best_source(
    make_plan: Callable[..., pl.DataFrame],
    sizes: list[list[int]],
    settings: dict[str, int],
    asked: int | None,
    expected: tuple[int, str],
) -> None:
    batch = choose_train_batch(make_plan(sizes), NOTHING_KNOWN | settings, asked)
    assert batch.size == expected[0] and batch.source.startswith(expected[1])


def test_single_groups_of_two_epochs_agree(make_plan: Callable[..., pl.DataFrame]) -> None:
    batch = choose_train_batch(make_plan([[3, 4]], num_epochs=2), NOTHING_KNOWN, None)
    assert batch == TrainBatch(7, "groups")


@pytest.mark.parametrize(
    ("sizes", "num_epochs", "train_batch_size", "expected"),
    [
        ([[4], [4], [2]], 1, 4, 0),  # a batch a group, and the remainder
        ([[4], [4], [2]], 1, 8, 0),  # two groups a batch
        ([[4], [4], [4]], 1, 2, 0),  # two batches a group
        ([[4], [4], [2]], 1, 5, 1),  # rows 4 to 7 lie in batches 0 and 1
        ([[4], [4], [2]], 1, 3, 3),  # 0-3, 4-7, 8-9 against 0-2, 3-5, 6-8, 9
        ([[4], [4], [2]], 2, 4, 2),  # the second epoch starts at row 10, inside batch 2
    ],
)
def test_straddling_groups_are_counted(
    make_plan: Callable[..., pl.DataFrame],
    sizes: list[list[int]],
    num_epochs: int,
    train_batch_size: int,
    expected: int,
) -> None:
    assert count_straddling(make_plan(sizes, num_epochs), train_batch_size) == expected


NUMBERS_OF_PROMPTS = st.sampled_from([1, 2, 3, 7, 8, 9, 13, 31, 32, 33, 97])


@given(
    num_prompts=NUMBERS_OF_PROMPTS,
    cuts=st.data(),
    num_epochs=st.integers(1, 3),
    train_batch_size=st.integers(1, 40),
)
def test_every_prompt_is_accounted_for(
    make_plan: Callable[..., pl.DataFrame],
    num_prompts: int,
    cuts: st.DataObject,
    num_epochs: int,
    train_batch_size: int,
) -> None:
    plan = make_plan(_random_sizes(num_prompts, cuts), num_epochs)
    everyone = set(range(num_prompts))

    kept = treat(plan, train_batch_size, "keep")
    for (_,), rows in kept.plan.group_by("epoch"):
        assert sorted(rows["prompt_id"]) == sorted(everyone)
    skipped = [row for e in kept.account for row in _rows(e)]
    assert skipped == list(range(len(plan) // train_batch_size * train_batch_size, len(plan)))

    repeated = treat(plan, train_batch_size, "repeat")
    assert len(repeated.plan) % train_batch_size == 0
    at = {row for e in repeated.account for row in _rows(e)}
    assert at == set(repeated.plan["is_repeat"].arg_true())
    assert repeated.num_touched == len(at) < num_epochs * train_batch_size
    once = repeated.plan.filter(~pl.col("is_repeat"))
    assert once["prompt_id"].to_list() == plan["prompt_id"].to_list()
    found = spans(repeated.plan, "group_id", "minibatch_id")
    tiled = [row for e in found.to_dicts() for row in _rows(e)]
    assert sorted([*tiled, *at]) == list(range(len(repeated.plan)))

    if num_prompts < train_batch_size:
        return
    dropped = treat(plan, train_batch_size, "drop")
    lost = {e["epoch"]: e["prompt_ids"] for e in dropped.account}
    for (epoch,), rows in dropped.plan.group_by("epoch"):
        assert len(rows) % train_batch_size == 0
        assert sorted([*rows["prompt_id"], *lost.get(epoch, [])]) == sorted(everyone)
    assert dropped.num_touched == num_epochs * (num_prompts % train_batch_size)


def _random_sizes(num_prompts: int, cuts: st.DataObject) -> list[list[int]]:
    groups: list[list[int]] = [[]]
    while num_prompts:
        size = cuts.draw(st.integers(1, num_prompts))
        groups[-1].append(size)
        num_prompts -= size
        if num_prompts and cuts.draw(st.booleans()):
            groups.append([])
    return groups


def _rows(entry: dict[str, int]) -> range:
    return range(entry["first_row"], entry["first_row"] + entry["num_rows"])
