"""The sample: near-duplicates once, few responses of many, many of some, a fair beginning."""

from collections.abc import Callable
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stages.profile.design import NUM_FIRST, NUM_OFTEN, SAMPLES_OFTEN, design, requests_for, unlike
from stages.tables.prompt_survey import PromptFile

MakePrompts = Callable[..., PromptFile]


def test_near_duplicates_are_asked_once(make_prompts: MakePrompts) -> None:
    texts = ["Add 1", "add  1\n", "Add 2", "Add 1", "ADD 2 "]
    kept = unlike(make_prompts(texts).frame)["prompt"].to_list()
    assert [text.casefold().split() for text in kept] == [["add", "1"], ["add", "2"]]
    backwards = unlike(make_prompts(texts[::-1]).frame)["prompt"].to_list()
    assert sorted(kept) == sorted(backwards)


def asked(prompts: PromptFile, **changes: Any) -> pl.DataFrame:
    settings = {"num_prompts": None, "samples_per_prompt": None, "seed": 0}
    return design(prompts.frame, **(settings | changes))


def test_many_prompts_with_few_responses_and_some_with_many(make_prompts: MakePrompts) -> None:
    prompts = make_prompts([f"{n} x" for n in range(2000)])
    for changes, few in (({}, 2), ({"num_prompts": 1500}, 1)):
        sample = asked(prompts, **changes)
        assert set(sample["num_samples"]) == {few, SAMPLES_OFTEN}
        assert set(sample["num_at_once"]) == {1, SAMPLES_OFTEN}
        often = (sample["num_samples"] == SAMPLES_OFTEN).arg_true().to_list()
        assert often == list(range(15, 15 + 16 * NUM_OFTEN, 16))
    assert asked(prompts, samples_per_prompt=3)["num_samples"].unique().to_list() == [3]


def test_of_few_prompts_a_larger_part_is_asked_often(make_prompts: MakePrompts) -> None:
    prompts = make_prompts([f"{n} x" for n in range(256)])
    assert (asked(prompts)["num_samples"] == SAMPLES_OFTEN).sum() == NUM_OFTEN
    few = asked(prompts, num_prompts=20)["num_samples"]
    assert few.to_list() == [SAMPLES_OFTEN] * 20


@given(st.integers(1, 200), st.integers(1, 250), st.none() | st.integers(1, 3), st.integers(0, 3))
def test_every_request_is_made_once_prompts_before_samples(
    make_prompts: MakePrompts, num_given: int, num_prompts: int, samples: int | None, seed: int
) -> None:
    prompts = make_prompts(["x" * (n + 1) for n in range(num_given)])
    sample = asked(prompts, num_prompts=num_prompts, samples_per_prompt=samples, seed=seed)
    assert len(sample) == min(num_given, num_prompts)
    keys = [(request.prompt_id, request.sample_index) for request in requests_for(sample, prompts)]
    wanted = sample.select("prompt_id", "num_samples").iter_rows()
    assert sorted(keys) == sorted((p, s) for p, num in wanted for s in range(num))
    first = sample.head(NUM_FIRST)["prompt_id"].to_list()
    assert keys[: len(first)] == [(prompt_id, 0) for prompt_id in first]
    # A second response of a prompt that is asked seldom waits for every prompt's first.
    met = list(dict.fromkeys(prompt_id for prompt_id, _ in keys))
    assert met == sample["prompt_id"].to_list()
    if samples is None:
        often = set(sample.filter(pl.col("num_at_once") > 1)["prompt_id"])
        seconds = [place for place, (p, s) in enumerate(keys) if s == 1 and p not in often]
        assert all(s == 1 for _, s in keys[min(seconds, default=len(keys)) :])


def test_the_seed_decides_and_nothing_else(make_prompts: MakePrompts) -> None:
    texts = [f"{n} {'x' * (n % 7)}" for n in range(60)]
    forward, backward = make_prompts(texts), make_prompts(texts[::-1])
    orders = [tuple(asked(forward, seed=seed)["prompt"]) for seed in range(5)]
    assert len(set(orders)) == 5
    assert tuple(asked(backward, seed=3)["prompt"]) == orders[3]
