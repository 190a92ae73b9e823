"""What does a free actor get?

In this order: work that was put down or lost, tails that are ready, and the next head that the lag
bound, the pacing and the plan's placement let start.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rollout.control.carried import Carried
from rollout.control.fleet import Actor, Fleet
from rollout.control.inventory import Inventory
from rollout.control.messages import HeldOver, Response, Unfinished, Work
from rollout.control.plan import Head, Plan
from rollout.control.settings import ControlSettings
from rollout.control.steps import Steps

Reason = Literal["lag", "pace", "placement", "deal", "exhausted"]


class Line:
    """All that was not dispatched, or has to be again."""

    def __init__(
        self,
        plan: Plan,
        settings: ControlSettings,
        steps: Steps,
        inventory: Inventory,
        fleet: Fleet,
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._steps = steps
        self._inventory = inventory
        self._fleet = fleet
        self._carried = Carried(plan)
        self._heads = OrderedDict(enumerate(plan.heads))  # not dispatched, in order
        self._requeued: list[Work] = []
        self._num_works = 0
        self._waiting: set[int] = set()  # cut, without credit
        self._held_epochs: set[int] = set()  # whose heads are being dealt anew
        self.first_version: dict[int, int] = {}  # by sample group that has tokens or is under way

    def undispatched(self) -> list[int]:
        """Sample groups of heads that no actor was given, in order."""
        return [group for head in self._heads.values() for group in head.groups]

    def hold_epoch(self, epoch: int) -> None:
        """Start no head of this epoch."""
        self._held_epochs.add(epoch)

    def release_epoch(self, epoch: int) -> None:
        """Its heads may start."""
        self._held_epochs.discard(epoch)

    def redeal(self, epoch: int, heads: Sequence[Head]) -> None:
        """Other heads for an epoch of which no head was dispatched."""
        left = list(self._heads.values())
        before = [head for head in left if head.epoch < epoch]
        after = [head for head in left if head.epoch > epoch]
        self._heads = OrderedDict(enumerate([*before, *heads, *after]))

    # What comes back --------------------------------------------------------------------------

    def requeue(self, work: Work, left: tuple[Response, ...]) -> Work:
        """Put what is left of a minibatch first in line."""
        # A group of which no token is left starts anew, on the version of its next actor.
        untouched = Counter(response.group for response in left if not response.tokens)
        for group, count in untouched.items():
            if count == self._plan.samples_g[group]:
                del self.first_version[group]
        again = Work(
            self._next_number(), work.step, work.round, work.token_budget, left,
            work.epoch, work.minibatch_id,
        )  # fmt: skip
        self._requeued.append(again)
        self._requeued.sort(key=lambda waiting: (waiting.step, waiting.number))
        return again

    def carry(self, work: Work, cut: Sequence[Response]) -> None:
        """A minibatch has ended; cut groups leave its step, give back credit and join a later one.

        Under `restart` a cut group starts again, whole.
        """
        if work.token_budget is not None:
            self._carried.fed(work.round, work.step)
        if not cut:
            return
        step = self._plan.next_tail(work.round + 1, work.step)
        assert step is not None, "a budget without a tail behind it was applied"
        groups = dict.fromkeys(response.group for response in cut)
        for group in groups:
            self._steps.move(group, step)
            if group not in self._waiting:
                self._waiting.add(group)
                self._inventory.cut(self._plan.samples_g[group])
        if self._settings.carry == "tokens":
            self._carried.wait(work.round + 1, step, list(cut))
            return
        for group in groups:
            del self.first_version[group]
            whole = [Response(group, sample) for sample in range(self._plan.samples_g[group])]
            self._carried.wait(work.round + 1, step, whole)

    # What outlives a run ----------------------------------------------------------------------

    def unfinished(self) -> list[Unfinished]:
        """All responses that wait in a bucket, or were put down or lost."""
        requeued = [
            Unfinished(work.step, work.round, response)
            for work in self._requeued
            for response in work.responses
        ]
        return self._carried.waiting() + requeued

    def hold(self, held: HeldOver) -> None:
        """A sample group that was carried before the run."""
        if held.first_version is not None:
            self.first_version[held.group] = held.first_version
        self._steps.move(held.group, held.step)
        self._inventory.start(self._plan.samples_g[held.group])
        if held.unfinished:
            self._waiting.add(held.group)
            self._inventory.cut(self._plan.samples_g[held.group])
        for step, round_, response in held.unfinished:
            self._carried.wait(round_, step, [response])

    # What is next -----------------------------------------------------------------------------

    def next_work(self, actor: Actor) -> Work | Reason:
        """Work for a free actor, or why there is none."""
        for place, work in enumerate(self._requeued):
            if self._may_continue(work, actor):
                self._requeued.pop(place)
                return self._again(work, self._begin(work.responses, actor))
        first = next(iter(self._heads.values())).step if self._heads else None
        tail = self._carried.ready(first)
        if tail is not None and (
            self._settings.carry == "tokens" or self._steps.may_start(tail[0], actor.version)
        ):
            return self._tail(*tail, actor)
        return self._next_head(actor)

    def _may_continue(self, work: Work, actor: Actor) -> bool:
        """Whether no response of requeued work would make its first token on too old weights."""
        return self._steps.may_start(work.step, actor.version) or all(
            response.tokens for response in work.responses
        )

    def _tail(self, step: int, round_: int, actor: Actor) -> Work:
        """What waits for this round, composed now."""
        responses, place = self._carried.take(step, round_, actor.slots)
        for group in dict.fromkeys(response.group for response in responses):
            if group in self._waiting:
                self._waiting.remove(group)
                self._inventory.resume(self._plan.samples_g[group])
        first = self._begin(responses, actor)
        epoch, minibatch_id = (place.epoch, place.minibatch_id) if place else (None, None)
        return Work(
            self._next_number(), step, round_, self._budget(round_, step, first),
            tuple(responses), epoch, minibatch_id,
        )  # fmt: skip

    def _next_head(self, actor: Actor) -> Work | Reason:
        """The first head in line that may start here."""
        num_skipped = 0
        for place, head in self._heads.items():
            if not self._steps.may_start(head.step, actor.version):
                return "lag"
            if head.epoch in self._held_epochs:
                return "deal"
            is_awaited = self._steps.is_awaited(head.step)
            if not self._inventory.may_start(head.num_samples, num_skipped, is_awaited):
                return "pace"
            is_elsewhere = head.instance not in (None, actor.instance)
            if is_elsewhere and self._fleet.is_placed(head.instance):
                num_skipped += head.num_samples
                continue
            del self._heads[place]
            responses = tuple(
                Response(group, sample)
                for group in head.groups
                for sample in range(self._plan.samples_g[group])
            )
            self._inventory.start(head.num_samples)
            self.first_version.update(dict.fromkeys(head.groups, actor.version))
            return Work(
                self._next_number(), head.step, 0, self._budget(0, head.step, actor.version),
                responses, head.epoch, head.minibatch_id,
            )  # fmt: skip
        return "placement" if self._heads else "exhausted"

    def _begin(self, responses: Sequence[Response], actor: Actor) -> int:
        """Note on which version first tokens are made; the least of all these responses."""
        versions = self.first_version
        for response in responses:
            if not response.tokens:
                known = versions.get(response.group, actor.version)
                versions[response.group] = min(known, actor.version)
        return min(versions[response.group] for response in responses)

    def _budget(self, round_: int, step: int, first_version: int) -> int | None:
        """The budget of a minibatch, if what it cuts is certain to end within the lag bound."""
        if not self._may_cut(round_, step, first_version):
            return None
        self._carried.feed(round_, step)
        return self._plan.budget_r[round_]

    def _again(self, work: Work, first_version: int) -> Work:
        """Requeued work keeps its budget, unless this actor has older weights than the last one."""
        if work.token_budget is None or self._may_cut(work.round, work.step, first_version):
            return work
        self._carried.fed(work.round, work.step)
        return replace(work, token_budget=None)

    def _may_cut(self, round_: int, step: int, first_version: int) -> bool:
        """Whether what is cut there is certain to end within the lag bound."""
        later = self._plan.next_tail(round_ + 1, step)
        if self._plan.budget_r[round_] is None or later is None:
            return False
        if self._settings.carry == "tokens":
            return later - first_version <= self._settings.max_lag
        return not round_ and later - step <= max(self._settings.max_lag, 1)

    def _next_number(self) -> int:
        self._num_works += 1
        return self._num_works - 1
