"""The Control Unit by hand: each rule alone."""

from collections.abc import Callable

import polars as pl
import pytest

from rollout.control.messages import (
    Command,
    Dispatch,
    Hold,
    Reload,
    Requeue,
    Response,
    Score,
    Train,
    Unload,
    Work,
)
from rollout.control.schedule import plan_of
from rollout.control.settings import ControlSettings
from rollout.control.unit import ControlUnit
from stages.tables.errors import AspError

MakeSchedule = Callable[..., pl.DataFrame]


def works(commands: list[Command]) -> list[Work]:
    return [command.work for command in commands if isinstance(command, Dispatch)]


def finish(unit: ControlUnit, work: Work) -> list[Command]:
    """A minibatch ends, is scored, and its actor is free."""
    done = unit.ended(work.number)
    for command in list(done):
        if isinstance(command, Score):
            done += unit.scored(command.groups)
    return done


def version_up(unit: ControlUnit, step: int) -> list[Command]:
    return [*unit.trained(step), *unit.published(step + 1)]


def test_heads_go_in_schedule_order_within_the_lag_bound(make_schedule: MakeSchedule) -> None:
    unit = ControlUnit(plan_of(make_schedule([[1, 1], [1], [1]])), ControlSettings(max_lag=1))
    first, second = works(unit.joined(0, 0, 4)) + works(unit.joined(1, 0, 4))
    assert [work.minibatch_id for work in (first, second)] == [0, 1]
    finish(unit, second)
    (third,) = works(unit.free(1))
    assert third.minibatch_id == 2  # step 1, one ahead of version 0
    finish(unit, third)
    assert unit.free(1) == [Hold(1, "lag")]  # step 2 needs version 1
    trained = finish(unit, first)
    assert Train(0, (0, 1), (0, 0), frozenset()) in trained
    # The weights of step 0 are published: idle actors reload one after the other, and go on.
    assert version_up(unit, 0)[-1] == Reload(0, 1)
    reloaded = unit.reloaded(0, 1)
    assert Reload(1, 1) in reloaded
    assert [work.minibatch_id for work in works(reloaded)] == [3]


def test_a_cut_group_leaves_its_step_and_joins_that_of_its_tail(
    make_schedule: MakeSchedule,
) -> None:
    plan = plan_of(make_schedule([[2], [-1, 1], [-1]], samples=2, budgets=[10]))
    unit = ControlUnit(plan, ControlSettings(max_lag=2))
    (head,) = works(unit.joined(0, 0, 4))
    assert head.token_budget == 10
    cut = [Response(1, 0, 10)]
    commands = unit.ended(head.number, cut)
    assert Score((0,)) in commands
    assert unit.inventory.position == 2  # the cut group has given back its credit
    assert unit.inventory.waiting == 2
    assert Train(0, (0,), (0,), frozenset()) in unit.scored((0,))
    (tail,) = works(unit.free(0))
    assert (tail.step, tail.round, tail.minibatch_id) == (1, 1, 1)
    assert list(tail.responses) == cut
    assert unit.inventory.waiting == 0
    (second,) = works(unit.free(0))  # a tail goes before heads; only then the head
    assert second.minibatch_id == 2
    unit.trained(0)
    finish(unit, tail)
    assert Train(1, (1, 2), (1, 1), frozenset()) in finish(unit, second)


@pytest.mark.parametrize(("max_lag", "version", "budget"), [
    (0, 0, None),  # nothing is carried
    (1, 0, 10),    # the tail stands in step 1: lag 1
    (2, 0, 10),
])  # fmt: skip
def test_a_budget_applies_only_where_the_tail_is_within_the_bound(
    make_schedule: MakeSchedule, max_lag: int, version: int, budget: int | None
) -> None:
    plan = plan_of(make_schedule([[1], [-1, 1], [-1]], budgets=[10]))
    unit = ControlUnit(plan, ControlSettings(max_lag=max_lag))
    (head,) = works(unit.joined(0, version, 4))
    assert head.token_budget == budget


def test_what_runs_ahead_may_not_be_cut_as_well(make_schedule: MakeSchedule) -> None:
    """Step 1 on version 0: its tail in step 2 would have lag 2."""
    plan = plan_of(make_schedule([[1], [-1, 1], [-1]], budgets=[10]))
    unit = ControlUnit(plan, ControlSettings(max_lag=1))
    unit.joined(0, 0, 4)
    (ahead,) = works(unit.joined(1, 0, 4))
    assert (ahead.step, ahead.token_budget) == (1, None)


def test_a_tail_waits_for_what_may_still_join_it_and_is_split_by_slots(
    make_schedule: MakeSchedule,
) -> None:
    plan = plan_of(make_schedule([[3, 2, 1], [-1, 1], [-1]], budgets=[10]))
    unit = ControlUnit(plan, ControlSettings(max_lag=3))
    head, other, third = (works(unit.joined(actor, 0, 4))[0] for actor in range(3))
    unit.ended(head.number, [Response(group, 0, 10) for group in head_groups(head)])
    (ahead,) = works(unit.free(0))
    assert ahead.round == 0  # the second and third head may still add to the tail
    unit.ended(third.number)
    unit.ended(other.number, [Response(group, 0, 10) for group in head_groups(other)])
    (tail,) = works(unit.free(1))
    (extra,) = works(unit.free(2))
    assert [len(work.responses) for work in (tail, extra)] == [3, 2]
    assert [work.step for work in (tail, extra)] == [1, 1]
    assert [work.minibatch_id for work in (tail, extra)] == [3, None]


def head_groups(work: Work) -> list[int]:
    return sorted({response.group for response in work.responses})


def test_restart_begins_the_whole_group_anew(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[2], [-1, 1], [-1]], samples=2, budgets=[10]))
    unit = ControlUnit(plan, ControlSettings(max_lag=0, carry="restart"))
    (head,) = works(unit.joined(0, 0, 4))
    assert head.token_budget == 10
    finished = unit.ended(head.number, [Response(1, 1, 10)])
    assert Score((0,)) in finished
    unit.scored((0,))
    assert unit.free(0) == [Hold(0, "lag")]  # a fresh first token needs version 1
    assert Reload(0, 1) in version_up(unit, 0)
    (tail,) = works(unit.reloaded(0, 1))
    assert tail.responses == (Response(1, 0), Response(1, 1))
    assert (tail.step, tail.token_budget) == (1, None)


def test_a_lost_minibatch_goes_out_first_without_its_tokens(make_schedule: MakeSchedule) -> None:
    unit = ControlUnit(plan_of(make_schedule([[1], [1], [1]])), ControlSettings(max_lag=2))
    (head,) = works(unit.joined(0, 0, 4))
    position = unit.inventory.position
    (requeue,) = unit.lost(0)
    assert isinstance(requeue, Requeue)
    assert requeue.work.responses == head.responses
    assert unit.inventory.position == position  # it keeps its credit
    assert unit.ended(head.number) == []  # late news
    (again,) = works(unit.joined(1, 0, 4))
    assert again is requeue.work
    assert unit.lost(0) == []
    with pytest.raises(AssertionError, match="was here before"):
        unit.joined(0, 0, 4)


def test_a_group_that_lost_all_tokens_has_the_lag_of_its_new_start(
    make_schedule: MakeSchedule,
) -> None:
    unit = ControlUnit(plan_of(make_schedule([[1], [1]])), ControlSettings(max_lag=1))
    (first,) = works(unit.joined(0, 0, 4))
    (second,) = works(unit.joined(1, 0, 4))
    finish(unit, first)
    version_up(unit, 0)
    unit.lost(1)
    (again,) = works(unit.reloaded(0, 1))
    assert again.responses == second.responses
    assert Train(1, (1,), (0,), frozenset()) in finish(unit, again)


def test_lost_work_does_not_start_anew_on_older_weights(make_schedule: MakeSchedule) -> None:
    unit = ControlUnit(
        plan_of(make_schedule([[1], [1]])), ControlSettings(max_lag=0, refresh="rolling")
    )
    (first,) = works(unit.joined(0, 0, 4))
    assert unit.joined(1, 0, 4) == [Hold(1, "lag")]
    assert unit.joined(2, 0, 4) == [Hold(2, "lag")]
    finish(unit, first)
    assert Reload(0, 1) in version_up(unit, 0)
    (second,) = works(unit.reloaded(0, 1))  # and actor 1 reloads; actor 2 is free, on version 0
    assert not works(unit.lost(0))
    (again,) = works(unit.reloaded(1, 1))
    assert again.responses == second.responses


def test_unload_puts_down_work_with_its_tokens(make_schedule: MakeSchedule) -> None:
    unit = ControlUnit(plan_of(make_schedule([[1], [2], [1]])), ControlSettings(max_lag=1))
    (first,) = works(unit.joined(0, 0, 4))
    (second,) = works(unit.joined(1, 0, 4))
    finish(unit, first)
    assert unit.free(0) == [Hold(0, "lag")]
    assert version_up(unit, 0) == [Reload(0, 1)]  # the idle first, and never all at once
    reloaded = unit.reloaded(0, 1)
    assert Unload(1) in reloaded
    (third,) = works(reloaded)
    assert third.step == 2
    finish(unit, third)
    left = [second.responses[1]._replace(tokens=7)]
    requeue, score, reload = unit.unloaded(1, {second.number: left})
    assert isinstance(requeue, Requeue)
    assert (score, reload) == (Score((1,)), Reload(1, 1))
    (again,) = works(unit.free(0))
    assert list(again.responses) == left
    unit.scored((1,))
    assert Train(1, (1, 2), (1, 1), frozenset()) in finish(unit, again)


def test_finish_drains_and_rolling_takes_few(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[1], [1, 1, 1, 1, 1], [1]]))
    for refresh, num_given in (("finish", 0), ("rolling", 1)):
        unit = ControlUnit(plan, ControlSettings(max_lag=1, refresh=refresh))  # type: ignore[arg-type]
        first, second, _ = (works(unit.joined(actor, 0, 4))[0] for actor in range(3))
        finish(unit, first)
        (fourth,) = works(unit.free(0))
        assert version_up(unit, 0) == []  # nobody puts down work
        finish(unit, fourth)
        assert works(unit.free(0)) == []  # actor 0 drains, has nothing, reloads
        assert unit.fleet.actors[0].service.value == "reloading"
        given = [*finish(unit, second), *unit.free(1)]
        assert len(works(given)) == num_given
        assert (Reload(1, 1) in given) == (refresh == "finish")


def test_set_point_holds_heads_until_training_takes_samples(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[2], [2], [2]]))
    unit = ControlUnit(plan, ControlSettings(max_lag=2, set_point=3))
    first = works(unit.joined(0, 0, 4))[0]
    second = works(unit.joined(1, 0, 4))[0]
    assert unit.joined(2, 0, 4) == [Hold(2, "pace")]
    finish(unit, second)
    assert unit.free(1) == [Hold(1, "pace")]  # still 4 in flight or queued
    assert [work.minibatch_id for work in works(finish(unit, first))] == [2]


def test_watermark_looks_at_the_queue_alone(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[1, 1], [1, 1], [1, 1]]))
    unit = ControlUnit(
        plan, ControlSettings(max_lag=2, pacing="watermark", high_mark=2, low_mark=1)
    )
    first, second, third = (works(unit.joined(actor, 0, 4))[0] for actor in range(3))
    finish(unit, third)
    (fourth,) = works(unit.free(2))
    finish(unit, fourth)  # two queued: the high mark
    assert unit.free(2) == [Hold(2, "pace")]
    finish(unit, first)
    released = finish(unit, second)  # step 0 takes its two; two are left, above the low mark
    assert not works(released)
    assert Train(1, (2, 3), (1, 1), frozenset()) in unit.trained(0)


def test_work_that_training_waits_for_is_never_paced(make_schedule: MakeSchedule) -> None:
    unit = ControlUnit(
        plan_of(make_schedule([[2, 2, 2], [1]])), ControlSettings(max_lag=1, set_point=1)
    )
    assert all(works(unit.joined(actor, 0, 4)) for actor in range(3))
    assert unit.joined(3, 0, 4) == [Hold(3, "pace")]


def test_a_queue_too_small_for_the_lag_bound_is_refused(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[4, 2], [3]], samples=2))
    with pytest.raises(AspError, match=r"queue_capacity is 31 .* 2 steps of 12 .* of 8, 32"):
        ControlUnit(plan, ControlSettings(max_lag=1, queue_capacity=31))
    ControlUnit(plan, ControlSettings(max_lag=1, queue_capacity=32))


def test_placement_binds_a_head_to_its_instance_while_it_is_there(
    make_schedule: MakeSchedule,
) -> None:
    plan = plan_of(make_schedule([[1, 1, 1]], instances=[0, 1, 0]))
    unit = ControlUnit(plan, ControlSettings(max_lag=1))
    first = works(unit.joined(5, 0, 4, instance=1))[0]
    assert first.minibatch_id == 0  # instance 0 is not there, so anyone takes its work
    assert works(unit.joined(6, 0, 4, instance=0))[0].minibatch_id == 2
    finish(unit, first)
    assert works(unit.free(5))[0].minibatch_id == 1


def test_what_never_comes_is_accounted_for(make_schedule: MakeSchedule) -> None:
    unit = ControlUnit(plan_of(make_schedule([[2, 1]])), ControlSettings())
    head, other = works(unit.joined(0, 0, 4)) + works(unit.joined(1, 0, 4))
    unit.ended(head.number, failed=[head.responses[0]])
    unit.ended(other.number)
    unit.scored((0, 1))
    assert unit.scored((2,), failed=(2,)) == [Train(0, (0, 1, 2), (0, 0, 0), frozenset({0, 2}))]
    assert unit.scored((2,)) == []  # late news
    unit.trained(0)
    assert unit.is_done


def test_completion_order_fills_steps_as_groups_come(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[1, 1], [1, 1]]))
    unit = ControlUnit(plan, ControlSettings(max_lag=1, consumption="completion"))
    slow, *fast = (works(unit.joined(actor, 0, 4))[0] for actor in range(4))
    finish(unit, fast[0])
    assert Train(0, (1, 2), (0, 0), frozenset()) in finish(unit, fast[1])
    finish(unit, fast[2])
    unit.trained(0)
    assert Train(1, (3, 0), (1, 1), frozenset()) in finish(unit, slow)


def test_completion_order_and_budgets_exclude_each_other(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[1], [-1]], budgets=[10]))
    with pytest.raises(AspError, match="completion order carries nothing"):
        ControlUnit(plan, ControlSettings(consumption="completion"))


def test_settings_out_of_range_are_named() -> None:
    with pytest.raises(AspError, match="max_lag is -1"):
        ControlSettings(max_lag=-1)
    with pytest.raises(AspError, match="low must be below high"):
        ControlSettings(low_mark=5, high_mark=5)


def test_requeued_work_loses_its_budget_on_an_actor_with_older_weights(
    make_schedule: MakeSchedule,
) -> None:
    """Cut there, its group would join step 2 with a token of version 0, at a lag bound of 1."""
    plan = plan_of(make_schedule([[1, 1], [1], [-1, 1]], budgets=[10]))
    unit = ControlUnit(plan, ControlSettings(max_lag=1, refresh="rolling"))
    unit.joined(0, 0, 8)
    unit.joined(1, 0, 8)
    unit.ended(0)
    unit.ended(1)
    unit.scored([0, 1])
    unit.trained(0)
    assert unit.published(1) == [Reload(0, 1)]
    (sent,) = [c for c in unit.reloaded(0, 1) if isinstance(c, Dispatch)]
    assert (sent.work.step, sent.work.token_budget) == (1, 10)
    assert unit.joined(2, 0, 8) == [Hold(2, "lag")]
    (again,) = [c for c in unit.lost(0) if isinstance(c, Dispatch)]
    assert (again.actor, again.work.step, again.work.token_budget) == (2, 1, None)
    unit.ended(again.work.number)
    (train,) = [c for c in unit.scored([2]) if isinstance(c, Train)]
    assert train.lags == (1,)
