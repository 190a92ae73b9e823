"""Sampling: as many as asked, each once, stratified by length, of the texts and the seed alone."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stages.profile.sampling import sample_prompts
from stages.tables.prompts import prompt_hash

texts = st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=40)


def frame(values: list[str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "prompt_id": range(len(values)),
            "prompt_hash": [prompt_hash(v) for v in values],
            "prompt": values,
        },
        schema_overrides={"prompt_id": pl.Int64},
    )


@given(texts, st.integers(1, 50), st.integers(0, 5))
def test_takes_exactly_as_many_different_prompts_as_there_are_or_are_asked_for(
    values: list[str], num_prompts: int, seed: int
) -> None:
    sample = sample_prompts(frame(values), num_prompts, seed)
    assert len(sample) == min(num_prompts, len(set(values)))
    assert sample["prompt"].n_unique() == len(sample)
    assert sample["prompt_id"].is_sorted()
    for row in sample.iter_rows(named=True):
        assert values.index(row["prompt"]) == row["prompt_id"]  # of equal texts the first


@given(texts, st.integers(1, 20), st.integers(0, 5))
def test_the_order_of_the_file_does_not_matter(
    values: list[str], num_prompts: int, seed: int
) -> None:
    forward = sample_prompts(frame(values), num_prompts, seed)
    backward = sample_prompts(frame(values[::-1]), num_prompts, seed)
    assert set(forward["prompt"]) == set(backward["prompt"])


def test_one_prompt_is_drawn_from_each_stratum() -> None:
    values = ["x" * length for length in range(1, 101)]
    for seed in range(20):
        drawn = sample_prompts(frame(values), 10, seed)["prompt"].str.len_chars().to_list()
        assert [(length - 1) // 10 for length in drawn] == list(range(10))


def test_the_seed_decides() -> None:
    values = ["x" * length for length in range(1, 101)]
    draws = {tuple(sample_prompts(frame(values), 10, seed)["prompt_id"]) for seed in range(10)}
    assert len(draws) == 10
    assert tuple(sample_prompts(frame(values), 10, 3)["prompt_id"]) in draws


def test_none_takes_all() -> None:
    assert sample_prompts(frame(["b", "a", "b"]), None, 0)["prompt_id"].to_list() == [0, 1]
