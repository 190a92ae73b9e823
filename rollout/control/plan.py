"""What does a schedule ask of the Control Unit?

In: a schedule table. A training step consumes one batch group: its heads, less the sample groups
cut at their budget, plus those that end in its tails.

Lists end in an axis legend: _g sample groups, _s training steps, _r rounds.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import polars as pl

from stages.tables.errors import AspError, first_few


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


def plan_of(schedule: pl.DataFrame, prompts_per_step: int | None = None) -> Plan:
    """Read a schedule table.

    Args:
        schedule: A complete schedule (or groups) table.
        prompts_per_step: Heads' prompts of a training step, for trainers with a fixed batch; the
            last step of an epoch may be shorter. None: a step is a batch group.

    Raises:
        AspError: A step is no whole number of minibatches, or budgets are no single ladder.
    """
    if schedule.is_empty():
        raise AspError("the schedule has no rows: there is nothing to generate")
    rows = schedule.sort("epoch", "position").select(
        "epoch", "minibatch_id", "group_id", pl.col("kind").cast(pl.String), "round", "prompt_ids",
        "num_samples", "token_budget", "instance",
    )  # fmt: skip
    step_b = _steps(rows, prompts_per_step)
    heads: list[Head] = []
    places: dict[tuple[int, int], list[Place]] = {}
    prompt_g: list[int] = []
    epoch_g: list[int] = []
    samples_g: list[int] = []
    step_g: list[int] = []
    for step, row in zip(step_b, rows.iter_rows(named=True), strict=True):
        epoch, minibatch_id = row["epoch"], row["minibatch_id"]
        if row["kind"] == "tail":
            places.setdefault((step, row["round"]), []).append(Place(epoch, minibatch_id))
            continue
        size, first = len(row["prompt_ids"]), len(prompt_g)
        each, rest = divmod(row["num_samples"], size)
        if rest or not each:
            raise AspError(
                f"column num_samples: minibatch {minibatch_id} has {row['num_samples']} for {size} "
                "prompts; it must be a multiple of them"
            )
        prompt_g += row["prompt_ids"]
        epoch_g += [epoch] * size
        samples_g += [each] * size
        step_g += [step] * size
        groups = range(first, first + size)
        heads.append(Head(epoch, minibatch_id, step, groups, each * size, row["instance"]))
    budget_r = _ladder(rows)
    group_id_s = dict(zip(step_b, rows["group_id"], strict=True))
    return Plan(
        tuple(heads),
        {key: tuple(value) for key, value in places.items()},
        budget_r,
        step_b[-1] + 1,
        tuple(prompt_g),
        tuple(epoch_g),
        tuple(samples_g),
        tuple(step_g),
        tuple(group_id_s.values()),
        tuple(
            tuple(sorted(step for step, round_ in places if round_ == number))
            for number in range(len(budget_r))
        ),
    )


def uniform_plan(
    prompt_ids: Sequence[int],
    prompts_per_minibatch: int,
    minibatches_per_step: int,
    samples_per_prompt: int,
    budgets: Sequence[int] = (),
) -> Plan:
    """`uniform_schedule` as a plan."""
    return plan_of(
        uniform_schedule(
            prompt_ids, prompts_per_minibatch, minibatches_per_step, samples_per_prompt, budgets
        )
    )


def uniform_schedule(
    prompt_ids: Sequence[int],
    prompts_per_minibatch: int,
    minibatches_per_step: int,
    samples_per_prompt: int,
    budgets: Sequence[int] = (),
    epoch: int = 0,
) -> pl.DataFrame:
    """Prompts in the order given, cut into equal minibatches and steps; the last may be less.

    Budgets, if any, make a ladder with a place for one tail of each round in each step that can
    have one; more are added at run time as they are needed.
    """
    cuts = range(0, len(prompt_ids), prompts_per_minibatch)
    minibatches = [list(prompt_ids[start : start + prompts_per_minibatch]) for start in cuts]
    num_groups = -(-len(minibatches) // minibatches_per_step)
    stops = [*budgets, None]
    rows: list[tuple[int, int, list[int]]] = []  # batch group, round, prompts
    for group in range(num_groups + len(budgets)):
        rows += [
            (group, round_, [])
            for round_ in range(len(budgets), 0, -1)
            if round_ <= group < num_groups + round_
        ]
        start = group * minibatches_per_step
        rows += [(group, 0, ids) for ids in minibatches[start : start + minibatches_per_step]]
    return pl.DataFrame(
        {
            "minibatch_id": range(len(rows)),
            "epoch": [epoch] * len(rows),
            "group_id": [group for group, _, _ in rows],
            "position": range(len(rows)),
            "kind": ["tail" if round_ else "head" for _, round_, _ in rows],
            "round": [round_ for _, round_, _ in rows],
            "prompt_ids": [ids for _, _, ids in rows],
            "num_samples": [samples_per_prompt * len(ids) for _, _, ids in rows],
            "token_budget": [stops[round_] for _, round_, _ in rows],
            "instance": [None] * len(rows),
        },
        schema_overrides={
            "prompt_ids": pl.List(pl.Int64), "token_budget": pl.Int64, "instance": pl.Int64
        },
    )  # fmt: skip


def _steps(rows: pl.DataFrame, prompts_per_step: int | None) -> list[int]:
    """Training step of each row."""
    if prompts_per_step is None:
        return (rows.select(pl.struct("epoch", "group_id").rle_id()).to_series()).to_list()
    with_heads = set(rows.filter(pl.col("kind") == "head").select("epoch", "group_id").iter_rows())
    step_b: list[int] = []
    step, held, last = -1, 0, (-1, -1)
    for row in rows.iter_rows(named=True):
        size, here = len(row["prompt_ids"]), (row["epoch"], row["group_id"])
        is_full = held >= prompts_per_step
        # Tails stand first in their batch group; after the last heads, in groups of their own.
        is_new_group = here != last and (is_full or here not in with_heads)
        if row["epoch"] != last[0] or is_new_group or (is_full and size):
            step, held = step + 1, 0
        held += size
        if held > prompts_per_step:
            raise AspError(
                f"minibatch {row['minibatch_id']} of epoch {row['epoch']} reaches beyond a "
                f"training step of {prompts_per_step} prompts: a step takes whole minibatches; "
                f"run `asp balance` again with --prompts-per-group {prompts_per_step}"
            )
        step_b.append(step)
        last = here
    return step_b


def _ladder(rows: pl.DataFrame) -> tuple[int | None, ...]:
    """The one token budget of each round."""
    by_round = rows.group_by("round").agg(pl.col("token_budget").unique().sort()).sort("round")
    ladder: list[int | None] = []
    for number, budgets in by_round.iter_rows():
        if len(budgets) > 1 or number != len(ladder):
            raise AspError(
                f"column token_budget: round {number} has {first_few(budgets)}; every minibatch "
                "of a round has the same budget, and rounds are numbered without gaps"
            )
        ladder.append(budgets[0])
    stops = [budget for budget in ladder if budget is not None]
    if stops != sorted(set(stops)) or None in ladder[:-1]:
        raise AspError(
            f"column token_budget: the rounds stop at {first_few(ladder, 8)}; budgets must rise "
            "from round to round, and only the last round may have none"
        )
    return tuple(ladder) if ladder[-1] is None else (*ladder, None)
