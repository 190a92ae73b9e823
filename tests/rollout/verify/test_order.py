"""A log beside the planned batches: what it says of the order, by hand and as properties."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from rollout.verify.order import Followed, Verdict, follow
from rollout.verify.planned import REMAINDER

SAMPLES = 2


def planned_rows(batches: list[list[str]], remainder: tuple[str, ...] = ()) -> pl.DataFrame:
    rows = [(number, name) for number, batch in enumerate(batches) for name in batch]
    rows += [(REMAINDER, name) for name in remainder]
    return pl.DataFrame(rows, schema={"batch": pl.Int64, "prompt_hash": pl.String}, orient="row")


def log_of(steps: dict[int, list[str]], samples: int = SAMPLES) -> pl.DataFrame:
    rows = [(step, name) for step, names in steps.items() for name in names for _ in range(samples)]
    return pl.DataFrame(rows, schema={"step": pl.Int64, "prompt_hash": pl.String}, orient="row")


def judged(batches: list[list[str]], steps: dict[int, list[str]]) -> Followed:
    return follow(planned_rows(batches), log_of(steps), SAMPLES)


PLAN = [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]


def test_a_log_as_planned_is_followed_whatever_the_order_inside_a_step() -> None:
    found = judged(PLAN, {1: ["b", "a"], 2: ["c", "d"], 3: ["f", "e"]})
    assert found.verdict is Verdict.FOLLOWED
    assert found.steps["batch"].to_list() == [0, 1, 2]
    assert (found.num_followed, found.num_missing, found.num_repeated) == (3, 0, 0)


def test_steps_may_count_from_0_or_begin_late_or_lie_apart() -> None:
    assert judged(PLAN, {0: ["a", "b"], 1: ["c", "d"]}).verdict is Verdict.FOLLOWED
    late = judged(PLAN, {3: ["e", "f"], 4: ["g", "h"]})
    assert late.verdict is Verdict.FOLLOWED and late.steps["batch"].to_list() == [2, 3]
    apart = judged(PLAN, {1: ["a", "b"], 5: ["c", "d"], 9: ["e", "f"]})
    assert apart.verdict is Verdict.FOLLOWED and apart.steps["batch"].to_list() == [0, 1, 2]


def test_a_trainer_that_goes_through_the_file_again_is_followed_in_each_pass() -> None:
    steps = {step + 1: PLAN[step % 4] for step in range(6)}
    found = judged(PLAN, steps)
    assert found.verdict is Verdict.FOLLOWED and found.num_passes == 2
    assert found.num_repeated == 0


def test_the_number_of_a_step_costs_nothing_however_large() -> None:
    """A pass over the plan for each that lies before it would fill any memory."""
    last = 2**53
    found = judged(PLAN, {1: ["a", "b"], 2: ["c", "x"], last: ["g", "h"]})
    assert found.steps["batch"].to_list() == [0, 1, last - 1]
    assert found.num_passes == last // 4 and (found.num_missing, found.num_repeated) == (1, 1)


def test_a_dropped_row_shifts_every_later_step() -> None:
    found = judged(PLAN, {1: ["a", "b"], 2: ["c", "e"], 3: ["f", "g"]})
    assert found.verdict is Verdict.SHIFTED
    assert found.num_followed == 1
    assert (found.num_missing, found.first_missing) == (1, "d")
    second = found.steps.row(1, named=True)
    assert (second["num_kept"], second["num_other"]) == (1, 1)


def test_a_group_that_was_filtered_is_incomplete_and_so_is_a_lacking_response() -> None:
    filtered = judged(PLAN, {1: ["a", "b"], 2: ["c"]})
    assert filtered.verdict is Verdict.INCOMPLETE and filtered.first_missing == "d"
    log = log_of({1: ["a", "b"]}).head(3)
    lacking = follow(planned_rows(PLAN), log, SAMPLES)
    assert lacking.verdict is Verdict.INCOMPLETE
    assert lacking.steps["num_lacking"].to_list() == [1] and lacking.num_missing == 0


def test_completion_order_is_told_from_shuffling() -> None:
    batches = [[f"{n}a", f"{n}b"] for n in range(20)]
    late = [[f"{n}a", f"{max(n - 1, 0)}b"] for n in range(1, 20)]
    found = judged(batches, {1: ["0a", "1b"]} | {n + 2: names for n, names in enumerate(late)})
    assert found.verdict is Verdict.DISPLACED
    assert found.largest_displacement == 1
    names = np.array(batches).ravel()
    np.random.default_rng(0).shuffle(names)
    shuffled = judged(batches, {n + 1: list(names[2 * n : 2 * n + 2]) for n in range(20)})
    assert shuffled.verdict is Verdict.RESHUFFLED
    # Of 20 batches two drawn at random lie 133 / 20 steps apart in the mean.
    assert shuffled.random_displacement == np.mean(
        [abs(i - j) for i in range(20) for j in range(20)]
    )


def test_budgets_let_prompts_come_later_but_not_earlier() -> None:
    steps = {1: ["a"], 2: ["c", "d", "b"], 3: ["e", "f"]}
    assert judged(PLAN, steps).verdict is not Verdict.CARRIED
    found = follow(planned_rows(PLAN), log_of(steps), SAMPLES, has_budgets=True)
    assert found.verdict is Verdict.CARRIED and found.is_followed
    lacking = log_of(steps).head(-1)
    assert not follow(planned_rows(PLAN), lacking, SAMPLES, has_budgets=True).is_followed
    early = log_of({1: ["a", "c"], 2: ["b", "d"]})
    assert not follow(planned_rows(PLAN), early, SAMPLES, has_budgets=True).is_followed


def test_a_prompt_trained_on_twice_is_counted_and_so_is_the_remainder() -> None:
    found = follow(planned_rows(PLAN, ("r",)), log_of({1: ["a", "r"], 2: ["c", "a"]}), SAMPLES)
    assert found.num_repeated == 2  # a: in two steps; r: planned for none
    assert found.first_missing == "b"


def test_prompts_of_equal_text_may_stand_in_for_one_another() -> None:
    plan = [["a", "a"], ["a", "b"]]
    found = judged(plan, {1: ["a", "a"], 2: ["b", "a"]})
    assert found.verdict is Verdict.FOLLOWED


@given(
    st.integers(1, 6).flatmap(
        lambda size: st.tuples(st.just(size), st.integers(1, 8), st.integers(0, 2**32 - 1))
    )
)
def test_every_logged_step_is_judged_once_and_counts_add_up(case: tuple[int, int, int]) -> None:
    size, num_batches, seed = case
    rng = np.random.default_rng(seed)
    names = [str(n) for n in range(size * num_batches)]
    batches = [names[n * size : (n + 1) * size] for n in range(num_batches)]
    shuffled = list(rng.permutation(names))
    steps = {n + 1: shuffled[n * size : (n + 1) * size] for n in range(num_batches)}
    found = judged(batches, steps)
    assert found.steps["step"].to_list() == list(steps)
    assert (found.steps["num_kept"] + found.steps["num_other"] == size).all()
    assert found.num_missing == found.num_repeated == 0  # all prompts are trained on, somewhere
    is_same = all(set(batches[n - 1]) == set(steps[n]) for n in steps)
    assert (found.verdict is Verdict.FOLLOWED) == is_same
