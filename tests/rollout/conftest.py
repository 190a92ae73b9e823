"""Schedules by hand."""

from collections.abc import Callable, Sequence

import polars as pl
import pytest

MakeSchedule = Callable[..., pl.DataFrame]


def schedule_of(
    groups: Sequence[Sequence[int]],
    samples: int = 1,
    budgets: Sequence[int] = (),
    num_epochs: int = 1,
    instances: Sequence[int | None] = (),
) -> pl.DataFrame:
    """`[[2, 3], [-1, 4]]`: heads of 2 and 3 prompts; then a tail of round 1 and a head of 4."""
    stops = [*budgets, None]
    rows: list[tuple[object, ...]] = []
    for epoch in range(num_epochs):
        prompt = head = 0
        start = len(rows)
        for group, entries in enumerate(groups):
            for entry in entries:
                position = len(rows) - start
                ids = list(range(prompt, prompt + max(entry, 0)))
                instance = instances[head % len(instances)] if ids and instances else None
                rows.append(
                    (position, epoch, group, position, "head" if ids else "tail", max(-entry, 0),
                     ids, max(samples * len(ids), 1), stops[max(-entry, 0)], instance)
                )  # fmt: skip
                prompt, head = prompt + len(ids), head + bool(ids)
    schema = {
        "minibatch_id": pl.Int64, "epoch": pl.Int64, "group_id": pl.Int64, "position": pl.Int64,
        "kind": pl.String, "round": pl.Int64, "prompt_ids": pl.List(pl.Int64),
        "num_samples": pl.Int64, "token_budget": pl.Int64, "instance": pl.Int64,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.fixture(scope="session")
def make_schedule() -> MakeSchedule:
    """`schedule_of`."""
    return schedule_of
