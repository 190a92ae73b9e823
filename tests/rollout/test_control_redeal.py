"""An epoch is dealt anew while the one before it is still under way."""

import random
from dataclasses import replace

import pytest

from rollout.control.messages import Dispatch, Hold, Train
from rollout.control.plan import Head
from rollout.control.schedule import plan_of
from rollout.control.settings import ControlSettings
from rollout.control.unit import ControlUnit
from tests.rollout.conftest import MakeSchedule, schedule_of
from tests.rollout.test_control_machine import Choose, World


def test_by_hand(make_schedule: MakeSchedule) -> None:
    """At lag bound 1 epoch 1, from step 2 on, may start on version 1: when step 0 was trained."""
    plan = plan_of(make_schedule([[1], [1]], num_epochs=2))
    assert [(head.step, list(head.groups)) for head in plan.heads[2:]] == [(2, [2]), (3, [3])]
    unit = ControlUnit(plan, ControlSettings(max_lag=1))
    (first,) = [c for c in unit.joined(0, 0, 8) if isinstance(c, Dispatch)]
    (second,) = [c for c in unit.free(0) if isinstance(c, Dispatch)]
    assert unit.free(0) == [Hold(0, "lag")]
    unit.ended(first.work.number)
    assert [c.step for c in unit.scored([0]) if isinstance(c, Train)] == [0]
    unit.hold_epoch(1)
    unit.trained(0)
    unit.ended(second.work.number)
    unit.scored([1])
    unit.published(1)
    assert unit.reloaded(0, 1) == [] and unit.free(0) == [Hold(0, "deal")]
    swapped = [
        replace(head, groups=[group])
        for head, group in zip(plan.heads[2:], (3, 2), strict=True)
    ]  # fmt: skip
    (third,) = [c for c in unit.dealt(1, swapped) if isinstance(c, Dispatch)]
    assert (third.work.step, third.work.responses[0].group) == (2, 3)
    unit.trained(1)
    unit.ended(third.work.number)
    (train,) = [c for c in unit.scored([3]) if isinstance(c, Train)]
    assert (train.step, train.groups, train.lags) == (2, (3,), (1,))
    with pytest.raises(AssertionError, match="heads of epoch 1 were started"):
        unit.hold_epoch(1)


class Redealt(World):
    """Epoch 1 is held when its first step may start, and dealt at any time after."""

    is_held = False
    num_dealt = 0

    def train(self) -> None:
        first = min(head.step for head in self.unit.plan.heads if head.epoch == 1)
        if self.training == first - self.unit.settings.max_lag - 1:
            self.unit.hold_epoch(1)
            self.is_held = True
        super().train()

    def moves(self) -> list[object]:  # type: ignore[override]
        return [*super().moves(), *([self.deal] if self.is_held else [])]

    def deal(self) -> None:
        self.is_held = False
        self.num_dealt += 1
        heads = [head for head in self.unit.plan.heads if head.epoch == 1]
        groups = [group for head in heads for group in head.groups]
        steps = sorted({head.step for head in heads})
        for place in range(len(groups) - 1, 0, -1):  # shuffled, by the choices of the world
            other = self.choose(place + 1)
            groups[place], groups[other] = groups[other], groups[place]
        dealt: list[Head] = []
        for number, step in enumerate(steps):
            share = groups[number :: len(steps)]
            size = 1 + self.choose(3)
            for start in range(0, len(share), size):
                cut = share[start : start + size]
                samples = sum(self.unit.plan.samples_g[group] for group in cut)
                dealt.append(Head(1, len(dealt), step, cut, samples, None))
        self.obey(self.unit.dealt(1, dealt if self.choose(6) else None))


def any_redealt(choose: Choose) -> Redealt:
    max_lag = 1 + choose(2)
    num_steps = max_lag + 1 + choose(3)
    groups = [[1 + choose(3) for _ in range(1 + choose(2))] for _ in range(num_steps)]
    if choose(2):
        budgets: tuple[int, ...] = (10,)
        groups = [[-1] * (place > 0) + heads for place, heads in enumerate(groups)]
        groups.append([-1])
    else:
        budgets = ()
    schedule = schedule_of(groups, 1 + choose(2), budgets, num_epochs=2)
    settings = ControlSettings(max_lag=max_lag, refresh=("unload", "finish", "rolling")[choose(3)])
    return Redealt(plan_of(schedule), settings, choose)


def test_every_group_is_trained_once_within_the_lag_bound() -> None:
    num_dealt = 0
    for seed in range(60):
        rng = random.Random(seed)
        world = any_redealt(rng.randrange)
        for _ in range(rng.randrange(200)):
            world.happen()
        world.run_out()
        num_dealt += world.num_dealt
    assert num_dealt == 60
