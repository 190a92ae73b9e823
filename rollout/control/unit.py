"""Which minibatch goes to which actor, and when?

The Control Unit is a state machine: a method for each event, which returns commands. It has no
clock, does no input or output and draws no random numbers, so the simulator and real actors drive
the same object. News of work or actors that are no longer there is passed over: it was late.
What a free actor is given stands in `line`, which sample groups are complete in `completion`.
"""

from collections.abc import Iterable, Mapping, Sequence

from rollout.control.completion import Completion
from rollout.control.fleet import Actor, Fleet
from rollout.control.inventory import Inventory
from rollout.control.line import Line, Reason
from rollout.control.messages import (
    Command,
    Dispatch,
    HeldOver,
    Hold,
    Requeue,
    Response,
    Score,
    Train,
    Unfinished,
    Work,
)
from rollout.control.plan import Head, Plan
from rollout.control.settings import ControlSettings
from rollout.control.steps import num_samples, steps_of
from stages.tables.errors import AspError


class ControlUnit:
    """Decides for one plan, from its first dispatch to its last training step."""

    def __init__(self, plan: Plan, settings: ControlSettings) -> None:
        in_order = settings.consumption == "dispatch"
        if not in_order and plan.num_rounds:
            raise AspError(
                "column token_budget: consumption in completion order carries nothing; use a "
                "schedule without budgets"
            )
        self.plan = plan
        self.settings = settings
        self.fleet = Fleet(settings)
        self.inventory = Inventory(settings, *plan.sizes())
        self._steps = steps_of(plan, settings.max_lag, in_order)
        self._line = Line(plan, settings, self._steps, self.inventory, self.fleet)
        self._works: dict[int, tuple[Work, int]] = {}  # under way, with their actor
        self._completion = Completion(plan.samples_g)
        self._failed: set[int] = set()
        self._training: int | None = None  # step in training
        self._is_placed = any(head.instance is not None for head in plan.heads)

    @property
    def is_done(self) -> bool:
        """Whether every step was trained."""
        return self._training is None and self._steps.next_step == self.plan.num_steps

    def undispatched(self) -> list[int]:
        """Sample groups of heads that no actor was given."""
        return self._line.undispatched()

    def held_over(self, step: int) -> list[HeldOver]:
        """Sample groups of earlier steps that join this one or a later: with them a run resumes."""
        groups = self._steps.left(step)
        under_way = [
            Unfinished(work.step, work.round, response)
            for work, _ in self._works.values()
            for response in work.responses
        ]
        unfinished: dict[int, list[Unfinished]] = {group: [] for group in groups}
        for each in (*under_way, *self._line.unfinished()):
            if each.response.group in groups:
                unfinished[each.response.group].append(each)
        return [
            HeldOver(group, joined, self._line.first_version.get(group), tuple(unfinished[group]))
            for group, joined in groups.items()
        ]

    # An epoch dealt anew ----------------------------------------------------------------------

    def hold_epoch(self, epoch: int) -> None:
        """Start no head of this epoch until `dealt` is told; none was started."""
        undispatched = set(self.undispatched())
        assert undispatched.issuperset(
            group for head in self.plan.heads if head.epoch == epoch for group in head.groups
        ), f"heads of epoch {epoch} were started"
        self._line.hold_epoch(epoch)

    def dealt(self, epoch: int, heads: Sequence[Head] | None) -> list[Command]:
        """The heads of an epoch that was held, for the steps that it has; None: as they were.

        Raises:
            AspError: They are too large for the queue; they stay as they were.
        """
        self._line.release_epoch(epoch)
        if heads is not None:
            plan = self.plan.redealt(epoch, heads)
            self.inventory.settle(*plan.sizes())
            self._steps.redeal(heads)
            self._line.redeal(epoch, heads)
            self.plan = plan
        return self._proceed()

    # Events -----------------------------------------------------------------------------------

    def resumed(self, held: Sequence[HeldOver]) -> list[Command]:
        """A run goes on from the plan's first step; told before all else."""
        for each in held:
            self._line.hold(each)
        return [*_score(self._completion.resumed(held)), *self._proceed()]

    def joined(
        self, actor: int, version: int, slots: int, instance: int | None = None
    ) -> list[Command]:
        """A new actor is there, free, with these weights.

        Args:
            actor: Its number, never used before.
            version: Policy version that it has loaded.
            slots: Responses that it decodes at once; no tail is larger.
            instance: The instance of the plan's placement that it stands for.
        """
        self.fleet.join(Actor(actor, version, slots, instance))
        return self._proceed(asked=actor)

    def lost(self, actor: int) -> list[Command]:
        """An actor is gone, with all tokens made there since the dispatch."""
        gone = self.fleet.lose(actor)
        if gone is None:
            return []
        requeued = [self._requeue(number, None) for number in sorted(gone.works)]
        return [*requeued, *self._proceed()]

    def free(self, actor: int) -> list[Command]:
        """An actor can take another minibatch."""
        self.fleet.ask(actor)
        return self._proceed(asked=actor)

    def ended(
        self, work: int, cut: Sequence[Response] = (), failed: Iterable[Response] = ()
    ) -> list[Command]:
        """All responses of a minibatch have ended.

        Args:
            work: Its number.
            cut: Those that stopped at its budget, with their tokens.
            failed: Those that timed out; their sample groups are trained on, and named as failed.
        """
        if work not in self._works:
            return []
        self._failed.update(response.group for response in failed)
        self.fleet.actors[self._works[work][1]].works.discard(work)
        return [*self._end(work, cut), *self._proceed()]

    def unloaded(self, actor: int, unfinished: Mapping[int, Sequence[Response]]) -> list[Command]:
        """An actor has put down its work.

        Args:
            actor: Its number.
            unfinished: By number of the work: responses that have not ended, with their tokens.
                Work that is not named had ended before, and its `ended` is on the way.
        """
        put_down = self.fleet.unloaded(actor, unfinished)
        commands: list[Command] = []
        for number in put_down:
            left = unfinished[number]
            if left:
                complete = self._completion.ended(self._works[number][0], left)
                commands += [self._requeue(number, left), *_score(complete)]
            else:
                commands += self._end(number, ())
        return [*commands, *self._proceed()]

    def scored(self, groups: Iterable[int], failed: Iterable[int] = ()) -> list[Command]:
        """Rewards are there; those of `failed` groups never came, and this is said of them."""
        for group in self._completion.scored(groups):
            self.inventory.queue(self.plan.samples_g[group])
            self._steps.add(group)
        self._failed.update(failed)
        return self._proceed()

    def trained(self, step: int) -> list[Command]:
        """The training step is over; version step + 1 is made, and to be published."""
        if self._training == step:
            self._training = None
        return self._proceed()

    def published(self, version: int) -> list[Command]:
        """Actors can load the weights that training made after so many steps."""
        self.fleet.publish(version)
        return self._proceed()

    def reloaded(self, actor: int, version: int) -> list[Command]:
        """An actor has loaded weights, and is free."""
        self.fleet.reloaded(actor, version)
        return self._proceed()

    # What is done ------------------------------------------------------------------------------

    def _end(self, number: int, cut: Sequence[Response]) -> list[Command]:
        """All of a minibatch has ended, or is cut."""
        work = self._works.pop(number)[0]
        complete = self._completion.ended(work, cut)
        self._line.carry(work, cut)
        if self.settings.carry == "restart":
            self._completion.restarted(cut)
        return _score(complete)

    def _requeue(self, number: int, unfinished: Sequence[Response] | None) -> Requeue:
        """Put work first in line; None: all of it, with the tokens that it came with."""
        work = self._works.pop(number)[0]
        left = work.responses if unfinished is None else tuple(unfinished)
        return Requeue(self._line.requeue(work, left))

    def _proceed(self, asked: int | None = None) -> list[Command]:
        """All that can be done now: training first, for it gives back places."""
        commands: list[Command] = []
        if self._training is None:
            groups = self._steps.take()
            if groups is not None:
                commands.append(self._train(groups))
        commands += self.fleet.refresh()
        refused: dict[tuple[int, int | None], Reason] = {}  # what holds for one holds for all alike
        for actor in self.fleet.free_actors():
            like = actor.version, actor.instance if self._is_placed else None
            work = refused.get(like) or self._line.next_work(actor)
            if isinstance(work, Work):
                refused.clear()
                self.fleet.give(actor.number, work.number)
                self._works[work.number] = work, actor.number
                commands.append(Dispatch(actor.number, work))
                continue
            refused[like] = work
            if actor.number == asked:
                commands.append(Hold(actor.number, work))
        return commands

    def _train(self, groups: tuple[int, ...]) -> Train:
        step = self._training = self._steps.next_step - 1
        lags = tuple(step - self._line.first_version.pop(group) for group in groups)
        self.inventory.consume(num_samples(self.plan, groups))
        return Train(step, groups, lags, frozenset(self._failed.intersection(groups)))


def _score(complete: tuple[int, ...]) -> list[Command]:
    """Ask for the rewards of these, if there are any."""
    return [Score(complete)] if complete else []
