"""Which sample groups make up the next training step?

`InOrder` is the rule of the plan: step s trains on the groups that belong to it, after step s - 1.
`AsCompleted` is the rule of asynchronous trainers without a schedule: the first groups that are
there make a step. It bounds the mean lag alone, since long groups are overtaken.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from rollout.control.plan import Head, Plan


class Steps(Protocol):
    """What the Control Unit asks of either rule."""

    next_step: int  # first step that was not taken

    def may_start(self, step: int, version: int) -> bool:
        """Whether a head of the step may start on weights of this version."""

    def is_awaited(self, step: int) -> bool:
        """Whether training waits for the step."""

    def move(self, group: int, step: int) -> None:
        """A sample group leaves its step and joins a later one."""

    def redeal(self, heads: Iterable[Head]) -> None:
        """Sample groups of which none was started belong to other steps."""

    def left(self, step: int) -> dict[int, int]:
        """Sample groups of earlier steps that have joined this one or a later, with that step."""

    def add(self, group: int) -> None:
        """A sample group is complete and scored."""

    def take(self) -> tuple[int, ...] | None:
        """The sample groups of the next step, which becomes the one after; None: not yet."""


class InOrder:
    """Steps in dispatch order; a head starts only on version >= step - max_lag."""

    def __init__(self, plan: Plan, max_lag: int) -> None:
        self._max_lag = max_lag
        self._num_steps = plan.num_steps
        self._step_g = list(plan.step_g)
        self._num_open_s = [0] * plan.num_steps
        for step in plan.step_g:
            self._num_open_s[step] += 1
        self._ready_s: list[list[int]] = [[] for _ in range(plan.num_steps)]
        self._moved: dict[int, int] = {}  # planned step of each group that has joined another
        self.next_step = plan.first_step

    def may_start(self, step: int, version: int) -> bool:
        """The hard lag bound."""
        return version >= step - self._max_lag

    def is_awaited(self, step: int) -> bool:
        """Whether it is the next one."""
        return step == self.next_step

    def move(self, group: int, step: int) -> None:
        """Never to an earlier step: a sibling may have been carried further."""
        old = self._step_g[group]
        if step > old:
            self._num_open_s[old] -= 1
            self._num_open_s[step] += 1
            self._step_g[group] = step
            self._moved.setdefault(group, old)

    def redeal(self, heads: Iterable[Head]) -> None:
        """That is where they were planned to be."""
        for head in heads:
            for group in head.groups:
                self._num_open_s[self._step_g[group]] -= 1
                self._num_open_s[head.step] += 1
                self._step_g[group] = head.step

    def left(self, step: int) -> dict[int, int]:
        """Their steps are over, and they are not."""
        return {
            group: self._step_g[group]
            for group, planned in self._moved.items()
            if planned < step <= self._step_g[group]
        }

    def add(self, group: int) -> None:
        """It was the last of its step, or not."""
        step = self._step_g[group]
        self._num_open_s[step] -= 1
        self._ready_s[step].append(group)

    def take(self) -> tuple[int, ...] | None:
        """All groups of the next step, once none of them is open."""
        step = self.next_step
        if step == self._num_steps or self._num_open_s[step]:
            return None
        self.next_step += 1
        return tuple(sorted(self._ready_s[step]))


class AsCompleted:
    """Steps of the planned sizes, filled in order of completion."""

    def __init__(self, plan: Plan) -> None:
        self._size_s = [0] * plan.num_steps
        for step in plan.step_g:
            self._size_s[step] += 1
        self._ready: deque[int] = deque()
        self.next_step = plan.first_step

    def may_start(self, step: int, version: int) -> bool:
        """Credits alone hold it."""
        return True

    def is_awaited(self, step: int) -> bool:
        """Any head may serve any step."""
        return False

    def move(self, group: int, step: int) -> None:
        """Nothing is carried."""
        raise AssertionError("consumption in completion order carries nothing")

    def redeal(self, heads: Iterable[Head]) -> None:
        """Heads may start long before their step, so none is dealt anew."""
        raise AssertionError("consumption in completion order keeps its plan")

    def left(self, step: int) -> dict[int, int]:
        """None: a group has no step of its own."""
        return {}

    def add(self, group: int) -> None:
        """Behind those completed before."""
        self._ready.append(group)

    def take(self) -> tuple[int, ...] | None:
        """The first groups that are there, once they fill the step."""
        if self.next_step == len(self._size_s):
            return None
        size = self._size_s[self.next_step]
        if len(self._ready) < size:
            return None
        self.next_step += 1
        return tuple(self._ready.popleft() for _ in range(size))


def steps_of(plan: Plan, max_lag: int, in_order: bool) -> Steps:
    """Either rule."""
    return InOrder(plan, max_lag) if in_order else AsCompleted(plan)


def num_samples(plan: Plan, groups: Iterable[int]) -> int:
    """Responses of some sample groups."""
    return sum(plan.samples_g[group] for group in groups)
