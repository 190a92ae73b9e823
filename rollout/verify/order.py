"""Were the planned batches trained on, and if not, what became of them?

A batch is judged by which prompts it holds and how many responses of each; the order inside it is
the trainer's own affair. Prompts of equal text are one prompt here, since no log tells them apart.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rollout.verify.planned import REMAINDER
from stages.tables.schemas import IS_AS_PLANNED

Ints = NDArray[np.int64]
NEAR_RANDOM = 0.5  # of the distance from the plan that random order has


class Verdict(Enum):
    """What the trainer did with the order."""

    FOLLOWED = "followed"  # each logged batch holds the planned prompts with all their responses
    CARRIED = "carried"  # ... but for those that token budgets let come later
    INCOMPLETE = "incomplete"  # ... yet not all their responses, or not all its prompts
    SHIFTED = "shifted"  # in the planned order, cut elsewhere
    DISPLACED = "displaced"  # nearer to the plan than NEAR_RANDOM of what random order is
    RESHUFFLED = "reshuffled"  # not nearer


@dataclass(frozen=True)
class Followed:
    """How the logged steps agree with the planned batches."""

    verdict: Verdict
    # A row a logged step: step, batch, num_planned, num_kept (planned there and trained there),
    # num_other (trained there, not planned there), num_lacking (responses too few), num_extra.
    steps: pl.DataFrame
    num_passes: int  # over the planned batches that the log goes through
    num_missing: int  # prompts planned in a logged batch and trained on nowhere in the log
    num_repeated: int  # prompts trained on in more steps than planned
    first_missing: str | None  # a prompt_hash
    mean_displacement: float | None  # steps from plan to training; None: no prompt tells
    largest_displacement: int | None
    random_displacement: float  # its mean under random order

    @property
    def is_followed(self) -> bool:
        """Whether the trainer did as the schedule says."""
        return self.verdict in (Verdict.FOLLOWED, Verdict.CARRIED)

    @property
    def num_followed(self) -> int:
        """Logged batches that are as planned."""
        return self.steps.filter(IS_AS_PLANNED).height


def follow(
    rows: pl.DataFrame, logged: pl.DataFrame, samples_per_prompt: int, has_budgets: bool = False
) -> Followed:
    """Compare planned batches with logged steps.

    Args:
        rows: `Planned.rows`.
        logged: A row a response: step, prompt_hash.
        samples_per_prompt: Responses that a planned prompt is to have.
        has_budgets: Prompts may be cut, and come later.
    """
    planned = rows.filter(pl.col("batch") != REMAINDER)
    counted = logged.group_by("step", "prompt_hash").agg(num_samples=pl.len().cast(pl.Int64))
    numbered = _number_batches(planned, counted)
    num_batches = int(planned["batch"].to_numpy().max()) + 1
    num_passes = int(numbered["batch"].to_numpy().max()) // num_batches + 1
    due_rows = _due_rows(planned, numbered, num_batches)
    steps = _compare(due_rows, numbered, samples_per_prompt)
    missing = _missing(due_rows, numbered)
    repeated = _count_repeated(planned, numbered, num_passes)
    due = _due(planned, numbered, num_batches)
    displacement = (due["batch"] - due["due"]).abs().to_numpy()
    random = _random_displacement(numbered["batch"].unique().to_numpy() % num_batches, num_batches)
    verdict = _judge(steps, due, displacement, random)
    is_never_early = bool((due["batch"] >= due["due"]).all())
    is_whole = not steps.select((pl.col("num_lacking") + pl.col("num_extra")).sum()).item()
    is_carried = is_never_early and is_whole and not repeated
    if has_budgets and verdict is not Verdict.FOLLOWED and is_carried:
        verdict = Verdict.CARRIED
    return Followed(
        verdict=verdict,
        steps=steps,
        num_passes=num_passes,
        num_missing=len(missing),
        num_repeated=repeated,
        first_missing=missing[0] if len(missing) else None,
        mean_displacement=float(displacement.mean()) if len(displacement) else None,
        largest_displacement=int(displacement.max()) if len(displacement) else None,
        random_displacement=random,
    )


def _number_batches(planned: pl.DataFrame, counted: pl.DataFrame) -> pl.DataFrame:
    """Give each logged step the number of the batch that it should be.

    Steps count batches from 0 or 1, or the log holds each so many steps and numbers batches one
    after the other: whichever agrees better with the plan, as numbered if both agree alike.
    """
    steps = counted["step"].unique().sort()
    as_numbered = steps - min(1, int(steps[0]))
    in_turn = pl.Series("step", np.arange(len(steps)))
    candidates = [
        counted.join(pl.DataFrame({"step": steps, "batch": batch.cast(pl.Int64)}), on="step").sort(
            "batch", "prompt_hash"
        )
        for batch in (as_numbered, in_turn)
    ]
    return max(candidates, key=lambda numbered: _agreement(planned, numbered))


def _agreement(planned: pl.DataFrame, numbered: pl.DataFrame) -> int:
    num_batches = int(planned["batch"].to_numpy().max()) + 1
    wrapped = numbered.with_columns(pl.col("batch") % num_batches)
    return wrapped.join(planned, on=["batch", "prompt_hash"], how="semi").height


def _due_rows(planned: pl.DataFrame, numbered: pl.DataFrame, num_batches: int) -> pl.DataFrame:
    """What each logged batch should hold; batch, prompt_hash, num_rows.

    Those alone: a step may bear any number, and the passes before it need not be in the log.
    """
    one = planned.group_by("batch", "prompt_hash").agg(num_rows=pl.len().cast(pl.Int64))
    logged = numbered.select("batch").unique().with_columns(of_pass=pl.col("batch") % num_batches)
    return logged.join(one, left_on="of_pass", right_on="batch").drop("of_pass")


def _compare(
    due_rows: pl.DataFrame, numbered: pl.DataFrame, samples_per_prompt: int
) -> pl.DataFrame:
    """A row a logged step."""
    steps = numbered.select("step", "batch").unique().sort("batch")
    both = due_rows.join(
        numbered.drop("step"), on=["batch", "prompt_hash"], how="full", coalesce=True
    ).with_columns(wanted=pl.col("num_rows") * samples_per_prompt)
    is_kept = pl.col("num_rows").is_not_null() & pl.col("num_samples").is_not_null()
    short = (pl.col("wanted") - pl.col("num_samples")).filter(is_kept)
    counts = both.group_by("batch").agg(
        num_planned=pl.col("num_rows").count().cast(pl.Int64),
        num_kept=is_kept.sum().cast(pl.Int64),
        num_other=pl.col("num_rows").is_null().sum().cast(pl.Int64),
        num_lacking=short.clip(lower_bound=0).sum().cast(pl.Int64),
        num_extra=(-short).clip(lower_bound=0).sum().cast(pl.Int64),
    )
    return steps.join(counts, on="batch").sort("batch")


def _missing(due_rows: pl.DataFrame, numbered: pl.DataFrame) -> pl.Series:
    """Prompts due that the log holds nowhere, first due first."""
    missing = due_rows.join(numbered, on="prompt_hash", how="anti").sort("batch", "prompt_hash")
    return missing["prompt_hash"].unique(maintain_order=True)


def _count_repeated(planned: pl.DataFrame, numbered: pl.DataFrame, num_passes: int) -> int:
    """How many prompts the log holds in more steps than are planned in that many passes."""
    in_plan = planned.group_by("prompt_hash").agg(num_planned=pl.len().cast(pl.Int64) * num_passes)
    in_log = numbered.group_by("prompt_hash").agg(num_trained=pl.len())
    repeated = in_log.join(in_plan, on="prompt_hash", how="left").filter(
        pl.col("num_trained") > pl.col("num_planned").fill_null(0)
    )
    return len(repeated)


def _due(planned: pl.DataFrame, numbered: pl.DataFrame, num_batches: int) -> pl.DataFrame:
    """When prompts were trained on (batch) and when they should have been (due), in that pass.

    Of the prompts that are planned once in a pass; the others do not tell.
    """
    once = planned.filter(pl.col("prompt_hash").is_unique()).select("prompt_hash", due="batch")
    start = pl.col("batch") // num_batches * num_batches
    return numbered.join(once, on="prompt_hash").select("batch", due=start + pl.col("due"))


def _random_displacement(batches: Ints, num_batches: int) -> float:
    """Mean distance of these batches from one drawn at random."""
    before, after = batches, num_batches - 1 - batches
    total = (before * (before + 1) + after * (after + 1)) / 2
    return float(total.mean() / num_batches)


def _judge(steps: pl.DataFrame, due: pl.DataFrame, displacement: Ints, random: float) -> Verdict:
    if steps.select(IS_AS_PLANNED.all()).item():
        return Verdict.FOLLOWED
    if not steps["num_other"].sum():
        return Verdict.INCOMPLETE
    if _is_in_order(due):
        return Verdict.SHIFTED
    if len(displacement) and displacement.mean() < NEAR_RANDOM * random:
        return Verdict.DISPLACED
    return Verdict.RESHUFFLED


def _is_in_order(due: pl.DataFrame) -> bool:
    """Whether no step holds a prompt that was due before one of an earlier step."""
    ends = due.group_by("batch").agg(first=pl.col("due").min(), last=pl.col("due").max())
    ends = ends.sort("batch")
    return len(ends) > 1 and bool((ends["first"].tail(-1) >= ends["last"].head(-1)).all())
