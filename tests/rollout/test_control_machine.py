"""The Control Unit under any order of events: failures, late news, reorderings."""

import random
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

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
from rollout.control.plan import Plan
from rollout.control.schedule import plan_of
from rollout.control.settings import ControlSettings
from rollout.control.unit import ControlUnit
from tests.rollout.conftest import schedule_of

Choose = Callable[[int], int]  # a number below the one given


class World:
    """Actors and trainer that do anything they are allowed to, in any order."""

    def __init__(self, plan: Plan, settings: ControlSettings, choose: Choose) -> None:
        self.unit = ControlUnit(plan, settings)
        self.choose = choose
        self.works: dict[int, tuple[Work, int]] = {}
        self.unloading: set[int] = set()
        self.reloading: dict[int, int] = {}
        self.unscored: list[int] = []
        self.training: int | None = None
        self.unpublished: list[int] = []
        self.trained: set[int] = set()
        self.next_step = 0
        self.version: dict[int, int] = {}
        self.num_joined = 0
        self.join()

    @property
    def actors(self) -> list[int]:
        return sorted(self.version)

    def obey(self, commands: list[Command]) -> None:
        unit, max_lag = self.unit, self.unit.settings.max_lag
        in_order = self.unit.settings.consumption == "dispatch"
        for command in commands:
            match command:
                case Dispatch(actor, work):
                    assert actor in self.version
                    assert actor not in self.unloading
                    assert actor not in self.reloading
                    assert work.number not in self.works
                    if in_order and not all(response.tokens for response in work.responses):
                        assert self.version[actor] >= work.step - max_lag
                    self.works[work.number] = work, actor
                case Unload(actor):
                    self.unloading.add(actor)
                    self.check_out_of_service()
                case Reload(actor, version):
                    assert all(owner != actor for _, owner in self.works.values())
                    assert version > self.version[actor]
                    self.reloading[actor] = version
                    self.check_out_of_service()
                case Score(groups):
                    self.unscored += groups
                case Train(step, groups, lags, _):
                    assert self.training is None
                    assert step == self.next_step
                    self.next_step += 1
                    self.training = step
                    assert not self.trained.intersection(groups)
                    assert len(set(groups)) == len(groups)
                    self.trained.update(groups)
                    if in_order:
                        assert max(lags, default=0) <= max_lag
                    assert min(lags, default=0) >= 0
                case Hold() | Requeue():
                    pass
        assert unit.inventory.position + unit.inventory.waiting <= unit.inventory.capacity
        assert min(unit.inventory.in_flight, unit.inventory.queued, unit.inventory.waiting) >= 0

    def check_out_of_service(self) -> None:
        """When one more is told to, they are within what is allowed; losses come afterwards."""
        num_out = len(self.unloading) + len(self.reloading)
        most = self.unit.settings.max_reloading or len(self.version)
        if self.unit.settings.refresh == "rolling" and not self.unit.settings.max_reloading:
            most = 1
        assert num_out <= max(1, min(most, len(self.version) - 1))

    # What may happen --------------------------------------------------------------------------

    def join(self) -> None:
        actor, self.num_joined = self.num_joined, self.num_joined + 1
        newest = max([0, *self.version.values()])
        self.version[actor] = newest
        slots = 1 + self.choose(4)
        self.obey(self.unit.joined(actor, newest, slots, instance=self.choose(3)))

    def lose(self, actor: int) -> None:
        del self.version[actor]
        self.unloading.discard(actor)
        self.reloading.pop(actor, None)
        self.works = {number: entry for number, entry in self.works.items() if entry[1] != actor}
        self.obey(self.unit.lost(actor))

    def ask(self, actor: int) -> None:
        self.obey(self.unit.free(actor))

    def end(self, number: int) -> None:
        work, actor = self.works.pop(number)
        budget, cut, failed = work.token_budget, [], []
        for response in work.responses:
            is_at_budget = budget is not None and response.tokens == budget
            if budget is not None and (is_at_budget or self.choose(3) == 0):
                cut.append(response._replace(tokens=budget))
            elif self.choose(20) == 0:
                failed.append(response)
        self.obey(self.unit.ended(number, cut, failed))
        self.obey(self.unit.ended(number, cut, failed))  # said twice
        if self.choose(4):
            self.ask(actor)

    def unload(self, actor: int) -> None:
        unfinished: dict[int, list[Response]] = {}
        for number, (work, owner) in list(self.works.items()):
            if owner == actor:
                del self.works[number]
                unfinished[number] = [
                    self.progress(response, work.token_budget)
                    for response in work.responses
                    if self.choose(3)
                    or (work.token_budget is not None and response.tokens == work.token_budget)
                ]
        self.unloading.discard(actor)
        self.obey(self.unit.unloaded(actor, unfinished))

    def progress(self, response: Response, budget: int | None) -> Response:
        most = response.tokens + 20 if budget is None else budget
        return response._replace(tokens=response.tokens + self.choose(most - response.tokens + 1))

    def reload(self, actor: int) -> None:
        self.version[actor] = self.reloading.pop(actor)
        self.obey(self.unit.reloaded(actor, self.version[actor]))

    def score(self, place: int) -> None:
        group = self.unscored.pop(place)
        self.obey(self.unit.scored((group,), (group,) if self.choose(20) == 0 else ()))
        self.obey(self.unit.scored((group,)))  # said twice

    def train(self) -> None:
        step, self.training = self.training, None
        assert step is not None
        self.unpublished.append(step + 1)
        self.obey(self.unit.trained(step))

    def publish(self, place: int) -> None:
        self.obey(self.unit.published(self.unpublished.pop(place)))  # versions may overtake

    def moves(self) -> list[Callable[[], None]]:
        """All that can happen but losses, late news, new actors and questions for work."""

        def call(happen: Callable[[int], None], what: int) -> Callable[[], None]:
            return lambda: happen(what)

        moves = [call(self.end, number) for number in self.works]
        moves += [call(self.unload, actor) for actor in self.unloading]
        moves += [call(self.reload, actor) for actor in self.reloading]
        moves += [call(self.score, place) for place in range(len(self.unscored))]
        moves += [call(self.publish, place) for place in range(len(self.unpublished))]
        return [*moves, self.train] if self.training is not None else moves

    def ask_all(self) -> None:
        """Actors without work say so."""
        for actor in self.actors:
            busy = {owner for _, owner in self.works.values()}
            if actor not in busy | self.unloading | set(self.reloading):
                self.ask(actor)

    def trouble(self) -> None:
        """A loss, a new actor, or news of what is long gone."""
        kind = self.choose(4)
        if kind == 0 and len(self.actors) > 1:
            self.lose(self.actors[self.choose(len(self.actors))])
        elif kind == 1 and len(self.actors) < 6:
            self.join()
        elif kind == 2:
            stale = self.choose(self.num_joined + 1)
            if stale not in self.version:
                self.obey(self.unit.free(stale))
                self.obey(self.unit.unloaded(stale, {}))
                self.obey(self.unit.reloaded(stale, 1))
        elif kind == 3 and self.actors:
            # Under continuous batching an actor asks while it decodes.
            self.ask(self.actors[self.choose(len(self.actors))])

    def happen(self) -> None:
        moves = self.moves()
        if self.choose(4) == 0:
            self.ask_all()
        if not moves or self.choose(12) == 0:
            self.trouble()
        else:
            moves[self.choose(len(moves))]()

    def run_out(self) -> None:
        """Without further trouble it ends: something can always progress."""
        while not self.unit.is_done:
            moves = self.moves()
            if not moves:
                self.ask_all()
                moves = self.moves()
                assert moves or self.unit.is_done, "nothing can happen, and steps are left"
            moves[self.choose(len(moves))]()
        assert self.unit.is_done
        assert self.trained == set(range(len(self.unit.plan.prompt_g)))
        inventory = self.unit.inventory
        assert (inventory.position, inventory.waiting) == (0, 0)


def any_world(choose: Choose, num_groups: int) -> World:
    """A plan with tails in places good and bad, and any settings."""
    num_rounds = choose(4)
    groups = []
    for group in range(num_groups + num_rounds):
        tails = [
            -round_
            for round_ in range(num_rounds, 0, -1)
            for _ in range(1 if group == round_ else choose(3))
            if group >= round_
        ]
        heads = [1 + choose(3) for _ in range(1 + choose(3))] if group < num_groups else []
        groups.append([*tails, *heads])
    schedule = schedule_of(
        groups, samples=1 + choose(3), budgets=[10, 20, 30][:num_rounds],
        num_epochs=1 + choose(2), instances=[None, 0, 1, 2] if choose(2) else [],
    )  # fmt: skip
    settings = ControlSettings(
        max_lag=(0, 1, 2, 4)[choose(4)],
        pacing=("setpoint", "watermark")[choose(2)],
        set_point=(None, 4)[choose(2)] if num_rounds else None,
        refresh=("unload", "finish", "rolling")[choose(3)],
        max_reloading=(None, 1, 2)[choose(3)],
        carry=("tokens", "restart")[choose(2)],
        consumption="dispatch" if num_rounds or choose(3) else "completion",
    )
    return World(plan_of(schedule), settings, choose)


class ControlMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32), num_groups=st.integers(1, 8))
    def start(self, seed: int, num_groups: int) -> None:
        rng = random.Random(seed)
        self.world = any_world(rng.randrange, num_groups)

    @rule(which=st.integers(0, 2**16))
    def happen(self, which: int) -> None:
        moves = [*self.world.moves(), self.world.ask_all]
        moves[which % len(moves)]()

    @precondition(lambda self: len(self.world.actors) > 1)
    @rule(which=st.integers(0, 2**16))
    def lose(self, which: int) -> None:
        self.world.lose(self.world.actors[which % len(self.world.actors)])

    @precondition(lambda self: len(self.world.actors) < 6)
    @rule()
    def join(self) -> None:
        self.world.join()

    @rule()
    def trouble(self) -> None:
        self.world.trouble()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.run_out()


TestControl = ControlMachine.TestCase
TestControl.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


def test_every_lost_and_late_event_over_many_worlds() -> None:
    for seed in range(150):
        world = any_world(random.Random(seed).randrange, 6)
        for _ in range(150):
            world.happen()
        world.run_out()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_events(seed: int) -> None:
    world = any_world(random.Random(seed).randrange, 700)
    for _ in range(10_000):
        world.happen()
    world.run_out()
