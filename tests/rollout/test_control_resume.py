"""A run that is broken off at any time goes on at its last training step, or at an earlier one."""

import random

import pytest

from rollout.control.messages import Dispatch, HeldOver, Response, Score, Train, Unfinished
from rollout.control.schedule import plan_of
from rollout.control.settings import ControlSettings
from rollout.control.unit import ControlUnit
from tests.rollout.conftest import MakeSchedule
from tests.rollout.test_control_machine import World, any_world


class Breakable(World):
    """Actors and trainer that may all be gone at once."""

    saved: tuple[int, list[HeldOver], set[int]] = (0, [], set())

    def train(self) -> None:
        """What held_over tells belongs to the moment before the next step is taken."""
        assert self.training is not None
        if self.choose(3):
            version = self.training + 1
            self.saved = version, self.unit.held_over(version), set(self.trained)
        super().train()

    def break_off(self) -> None:
        version, held, trained = self.saved
        plan = self.unit.plan
        whole = self.whole = getattr(self, "whole", plan)
        self.works.clear()
        self.unloading.clear()
        self.reloading.clear()
        self.unscored.clear()
        self.unpublished.clear()
        self.training, self.next_step, self.trained = None, version, set(trained)
        rest = whole.rest(version, {each.group for each in held} | trained)
        self.unit = ControlUnit(rest, self.unit.settings)
        self.version = {}
        self.obey(self.unit.resumed(held))
        for _ in range(1 + self.choose(3)):
            actor, self.num_joined = self.num_joined, self.num_joined + 1
            self.version[actor] = version
            self.obey(self.unit.joined(actor, version, 1 + self.choose(4), self.choose(3)))


@pytest.mark.parametrize("first_seed", range(0, 120, 30))
def test_every_group_is_trained_once_however_often_it_is_broken_off(first_seed: int) -> None:
    num_held = 0
    for seed in range(first_seed, first_seed + 30):
        whole = any_world(random.Random(seed).randrange, 6)
        rng = random.Random(seed)
        world = Breakable(whole.unit.plan, whole.unit.settings, rng.randrange)
        for _ in range(4):
            for _ in range(rng.randrange(60)):
                world.happen()
            num_held += len(world.saved[1])
            world.break_off()
        world.run_out()
    assert num_held, "no group was ever held over"


def test_by_hand(make_schedule: MakeSchedule) -> None:
    """Of two groups one is cut in step 0 and waits for step 1; it is broken off in between."""
    plan = plan_of(make_schedule([[2], [-1, 1]], budgets=[10]))
    unit = ControlUnit(plan, ControlSettings(max_lag=1))
    (first,) = [c for c in unit.joined(0, 0, 8) if isinstance(c, Dispatch)]
    unit.ended(first.work.number, cut=[Response(1, 0, 10)])
    unit.scored([0])
    held = unit.held_over(1)
    assert held == [HeldOver(1, 1, 0, (Unfinished(1, 1, Response(1, 0, 10)),))]

    rest = plan.rest(1, {0, 1})
    assert [(head.step, list(head.groups)) for head in rest.heads] == [(1, [2])]
    later = ControlUnit(rest, ControlSettings(max_lag=1))
    assert later.resumed(held) == []
    (tail,) = (c for c in later.joined(7, 1, 8) if isinstance(c, Dispatch))
    assert (tail.work.step, tail.work.round, tail.work.responses) == (1, 1, (Response(1, 0, 10),))
    (head,) = (c for c in later.free(7) if isinstance(c, Dispatch))
    assert head.work.responses == (Response(2, 0),)
    later.ended(tail.work.number)
    later.ended(head.work.number)
    (train,) = [c for c in later.scored([1, 2]) if isinstance(c, Train)]
    assert (train.step, train.groups, train.lags) == (1, (1, 2), (1, 0))


def test_what_was_complete_is_scored_again(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[1], [1]]))
    unit = ControlUnit(plan.rest(1, {0}), ControlSettings())
    assert unit.resumed([HeldOver(0, 1, 0, ())]) == [Score((0,))]
    assert (unit.inventory.in_flight, unit.inventory.waiting) == (1, 0)


def test_a_head_that_lost_its_middle_stays_one(make_schedule: MakeSchedule) -> None:
    plan = plan_of(make_schedule([[5], [1]], samples=2))
    rest = plan.rest(1, {0, 2})
    assert [(list(h.groups), h.num_samples) for h in rest.heads] == [([1, 3, 4], 6), ([5], 2)]
    assert rest.samples_s() == plan.samples_s() == [10, 2]
