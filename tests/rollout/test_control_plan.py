"""What a schedule is read as, and what is refused."""

from collections.abc import Callable

import polars as pl
import pytest

from rollout.control.schedule import plan_of
from rollout.control.uniform import uniform_plan
from stages.tables.errors import AspError

MakeSchedule = Callable[..., pl.DataFrame]


def test_a_schedule_by_hand(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[2, 1], [-1, 2], [-1]], samples=2, budgets=[10]))
    assert [head.groups for head in plan.heads] == [range(2), range(2, 3), range(3, 5)]
    assert [head.step for head in plan.heads] == [0, 0, 1]
    assert [head.num_samples for head in plan.heads] == [4, 2, 4]
    assert plan.prompt_g == (0, 1, 2, 3, 4)
    assert plan.samples_g == (2, 2, 2, 2, 2)
    assert plan.budget_r == (10, None)
    assert {key: places[0].minibatch_id for key, places in plan.places.items()} == {
        (1, 1): 2, (2, 1): 4
    }  # fmt: skip
    assert [plan.next_tail(1, step) for step in (0, 1, 2)] == [1, 2, None]
    assert plan.samples_s() == [6, 4, 0]


def test_epochs_follow_each_other(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[1], [1]], num_epochs=2))
    assert plan.prompt_g == (0, 1, 0, 1)
    assert plan.epoch_g == (0, 0, 1, 1)
    assert plan.step_g == (0, 1, 2, 3)
    assert plan.group_id_s == (0, 1, 0, 1)


def test_steps_of_a_fixed_number_of_prompts(make_schedule: MakeSchedule) -> None:
    """Batch groups of 4 make steps of 8 or of 2; a group's tails belong to its first step."""
    schedule = make_schedule([[2, 2], [-1, 2, 2], [-1, 2, 2], [-1, 1], [-1]], budgets=[10])
    wide, narrow = plan_of(schedule, 8), plan_of(schedule, 2)
    assert [head.step for head in wide.heads] == [0, 0, 0, 0, 1, 1, 1]
    assert sorted(wide.places) == [(0, 1), (1, 1), (2, 1)]
    assert [head.step for head in narrow.heads] == [0, 1, 2, 3, 4, 5, 6]
    assert sorted(narrow.places) == [(2, 1), (4, 1), (6, 1), (7, 1)]


def test_a_step_is_a_whole_number_of_minibatches(make_schedule: MakeSchedule) -> None:
    with pytest.raises(AspError, match=r"minibatch 1 of epoch 0 .* --prompts-per-group 4"):
        plan_of(make_schedule([[3, 3], [2]]), 4)


def test_budgets_are_one_ladder(make_schedule: MakeSchedule) -> None:
    good = make_schedule([[1], [-1, 1], [-1, -2], [-2]], budgets=[10, 20])
    assert plan_of(good).budget_r == (10, 20, None)
    head = pl.col("kind") == "head"
    mixed = good.with_columns(
        token_budget=pl.when(head).then(pl.col("position") + 1).otherwise("token_budget")
    )
    with pytest.raises(AspError, match="round 0 has 1, 3"):
        plan_of(mixed)
    falling = good.with_columns(token_budget=pl.when(head).then(30).otherwise("token_budget"))
    with pytest.raises(AspError, match="must rise"):
        plan_of(falling)


def test_what_cannot_be_run_is_refused(make_schedule: MakeSchedule) -> None:
    schedule = make_schedule([[2]])
    with pytest.raises(AspError, match="no rows"):
        plan_of(schedule.clear())
    with pytest.raises(AspError, match=r"num_samples: minibatch 0 has 3 for 2"):
        plan_of(schedule.with_columns(num_samples=pl.lit(3)))


def test_a_uniform_plan_has_a_tail_of_each_round_in_each_step() -> None:
    plan = uniform_plan(list(range(10)), 2, 2, 3, budgets=(10, 20))
    assert [len(head.groups) for head in plan.heads] == [2, 2, 2, 2, 2]
    assert plan.samples_s() == [12, 12, 6, 0, 0]
    assert plan.tail_steps_r == ((), (1, 2, 3), (2, 3, 4))
    assert plan.without_budgets().next_tail(1, 0) is None
