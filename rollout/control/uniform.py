"""What is the schedule of prompts that nobody planned?

They keep the order in which they are given.
"""

from collections.abc import Sequence

import polars as pl

from rollout.control.plan import Plan
from rollout.control.schedule import plan_of


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
