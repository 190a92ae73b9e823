"""Budgets on recorded lengths: by hand, and what must hold for any lengths."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.carry import replay_carried
from stages.costs.model import CostModel

SLOTS_ALONE = CostModel(step_seconds=0.0, sequence_seconds=1.0)
Row = tuple[str, int, int, int | None, list[int]]


def epoch(*rows: Row) -> pl.DataFrame:
    schema = {"kind": pl.String, "round": pl.Int64, "group_id": pl.Int64,
              "token_budget": pl.Int64, "prompt_ids": pl.List(pl.Int64)}  # fmt: skip
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def lengths(*of_prompt: list[int]) -> dict[int, np.ndarray]:
    return {prompt: np.array(tokens) for prompt, tokens in enumerate(of_prompt)}


def test_one_straggler_by_hand() -> None:
    """3 short and one of 100 stop at 10; the straggler goes on alone in the next group."""
    plan = epoch(("head", 0, 0, 10, [0, 1]), ("tail", 1, 1, None, []))
    done = replay_carried(plan, lengths([5, 8], [9, 100]), SLOTS_ALONE, 4)
    assert done.useful == 5 + 8 + 9 + 100
    assert done.paid == 4 * 10 + 90
    assert done.prefilled == 10
    assert done.seconds == pytest.approx(done.paid)
    assert done.delay == {1: 1}
    assert done.num_minibatches == 2
    assert done.utilization(0.5) == pytest.approx(122 / (130 + 5))


def test_a_tail_takes_all_that_waits_in_equal_minibatches() -> None:
    plan = epoch(("head", 0, 0, 10, [0]), ("head", 0, 0, 10, [1]), ("tail", 1, 1, 20, []),
                 ("tail", 2, 2, None, []))  # fmt: skip
    done = replay_carried(plan, lengths([12, 14, 30], [15, 16, 18]), SLOTS_ALONE, 4)
    # two heads of 3 to 10, six responses in two tails of 3: to 20 (one is cut) and to 18; one to 30
    assert done.paid == 2 * 3 * 10 + 3 * 10 + 3 * 8 + 10
    assert done.num_minibatches == 5
    assert done.delay == {0: 2, 1: 1}


def test_what_the_plan_forgets_runs_to_the_end() -> None:
    done = replay_carried(epoch(("head", 0, 0, 10, [0])), lengths([5, 40]), SLOTS_ALONE, 4)
    assert (done.useful, done.paid, done.delay) == (45, 20 + 30, {0: 1})


@given(
    st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=4), min_size=1, max_size=12),
    st.lists(st.integers(1, 400), max_size=4, unique=True),
    st.integers(1, 8),
)  # fmt: skip
def test_every_token_is_generated_once(
    tokens: list[list[int]], budgets: list[int], num_slots: int
) -> None:
    stops = [*sorted(budgets), None]
    heads: list[Row] = [("head", 0, p, stops[0], [p]) for p in range(len(tokens))]
    tails: list[Row] = [
        ("tail", r, len(tokens) + r, stop, []) for r, stop in enumerate(stops[1:], 1)
    ]
    done = replay_carried(epoch(*heads, *tails), lengths(*tokens), SLOTS_ALONE, num_slots)
    assert done.useful == sum(map(sum, tokens))
    assert done.paid >= done.useful
    assert set(done.delay) == {
        p for p, of in enumerate(tokens) if budgets and max(of) > min(budgets)
    }
    assert 0 <= done.utilization(0.1) <= 1
