"""What plan does a schedule table hold?

In: a schedule (or groups) table. Out: its plan, numbered in dispatch order.

Lists end in an axis legend: _g sample groups, _s training steps, _r rounds, _b minibatches.
"""

import polars as pl

from rollout.control.plan import Head, Place, Plan
from stages.tables.errors import AspError, first_few


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
