"""What does a schedule ask of the Control Unit?

A training step consumes one batch group: its heads, less the sample groups cut at their budget,
plus those that end in its tails.

Lists end in an axis legend: _g sample groups, _s training steps, _r rounds.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Head:
    """A planned minibatch of fresh prompts."""

    epoch: int
    minibatch_id: int
    step: int
    groups: Sequence[int]  # its sample groups; as planned, numbered on in dispatch order
    num_samples: int
    instance: int | None  # instance that generates it; None: any


@dataclass(frozen=True, slots=True)
class Place:
    """A planned tail."""

    epoch: int
    minibatch_id: int


@dataclass(frozen=True)
class Plan:
    """A schedule, in dispatch order."""

    heads: tuple[Head, ...]
    places: dict[tuple[int, int], tuple[Place, ...]]  # by step and round
    budget_r: tuple[int | None, ...]  # token budget by round; the last is None
    num_steps: int
    prompt_g: tuple[int, ...]
    epoch_g: tuple[int, ...]
    samples_g: tuple[int, ...]  # responses of each sample group
    step_g: tuple[int, ...]
    group_id_s: tuple[int, ...]  # batch group of each step
    tail_steps_r: tuple[tuple[int, ...], ...]  # steps with a place, ascending, by round
    first_step: int = 0  # those before it were taken

    @property
    def num_rounds(self) -> int:
        """Tail rounds."""
        return len(self.budget_r) - 1

    def next_tail(self, round_: int, step: int) -> int | None:
        """First step after this one with a place for a tail of the round."""
        if round_ >= len(self.tail_steps_r):
            return None
        steps = self.tail_steps_r[round_]
        place = bisect_right(steps, step)
        return steps[place] if place < len(steps) else None

    def nearest_tail(self) -> int | None:
        """Fewest steps from a head to a tail that can continue it; None: there is no tail."""
        tails = [(self.next_tail(1, head.step), head.step) for head in self.heads]
        return min((tail - step for tail, step in tails if tail is not None), default=None)

    def samples_s(self) -> list[int]:
        """Samples of each step's heads, those that were taken included."""
        samples = [0] * self.num_steps
        for step, size in zip(self.step_g, self.samples_g, strict=True):
            samples[step] += size
        return samples

    def sizes(self) -> tuple[list[int], int, int]:
        """Samples of each step's heads, samples of the largest head, tail rounds."""
        largest = max((head.num_samples for head in self.heads), default=0)
        return self.samples_s(), largest, self.num_rounds

    def without_budgets(self) -> "Plan":
        """The same heads, each run to its end; steps of tails alone stay, without samples."""
        return replace(self, places={}, budget_r=(None,), tail_steps_r=((),))

    def rest(self, first_step: int, started: Collection[int]) -> "Plan":
        """What is left before this step is taken, less the sample groups that were started.

        Numbers stay.
        """
        heads: list[Head] = []
        for head in self.heads:
            left = [group for group in head.groups if group not in started]
            if left:
                size = sum(self.samples_g[group] for group in left)
                heads.append(replace(head, groups=left, num_samples=size))
        return replace(self, heads=tuple(heads), first_step=first_step)

    def redealt(self, epoch: int, heads: Sequence[Head]) -> "Plan":
        """The same with other heads for an epoch: its sample groups, in the steps that it has."""
        step_g = list(self.step_g)
        for head in heads:
            for group in head.groups:
                step_g[group] = head.step
        before = [head for head in self.heads if head.epoch < epoch]
        after = [head for head in self.heads if head.epoch > epoch]
        return replace(self, heads=(*before, *heads, *after), step_g=tuple(step_g))
