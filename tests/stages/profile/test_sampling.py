"""Sampling: as many as asked, each once, stratified by length, of the texts and the seed alone."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stages.profile.sampling import NUM_LENGTHS, fair_turns, in_fair_order, sample_prompts
from stages.tables.prompts import prompt_hash

texts = st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=40)


def frame(values: list[str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "prompt_id": range(len(values)),
            "prompt_hash": [prompt_hash(v) for v in values],
            "prompt": values,
            "domain": [None] * len(values),
        },
        schema_overrides={"prompt_id": pl.Int64, "domain": pl.String},
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


sizes = st.lists(st.integers(0, 30), min_size=1, max_size=9).filter(sum)


@given(sizes, st.integers(0, 5))
def test_after_every_turn_each_stratum_is_within_one_of_its_share(
    sizes: list[int], seed: int
) -> None:
    turns = fair_turns(sizes, np.random.default_rng(seed))
    num_strata, num_turns = sum(size > 0 for size in sizes), len(turns)
    assert np.bincount(turns, minlength=len(sizes)).tolist() == sizes
    had_ks = np.cumsum(turns[:, None] == np.arange(len(sizes)), axis=0)  # k turns, s strata
    due_ks = np.outer(np.arange(1, num_turns + 1), sizes) / num_turns
    bound = 1 - 1 / (2 * num_strata - 2) if num_strata > 1 else 0
    assert np.abs(had_ks - due_ks).max() <= bound + 1e-9


def test_turns_by_hand() -> None:
    """Half, a quarter and a quarter: the half has every other turn."""
    turns = fair_turns([4, 2, 2], np.random.default_rng(0)).tolist()
    assert [turns[:4].count(stratum) for stratum in range(3)] == [2, 1, 1]
    assert [turns[4:].count(stratum) for stratum in range(3)] == [2, 1, 1]
    assert fair_turns([0, 3], np.random.default_rng(0)).tolist() == [1, 1, 1]


domains = st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=60)


@given(domains, st.integers(0, 3))
def test_every_beginning_is_fair_to_domains_and_to_lengths_within_them(
    domains: list[str | None], seed: int
) -> None:
    prompts = frame(["x" * (n + 1) for n in range(len(domains))]).with_columns(
        domain=pl.Series(domains, dtype=pl.String)
    )
    ordered = in_fair_order(prompts, seed)
    assert sorted(ordered["prompt_id"]) == list(range(len(domains)))
    for domain in set(domains):
        own = ordered["domain"].eq_missing(pl.Series([domain], dtype=pl.String)).to_numpy()
        places = np.arange(1, len(own) + 1)
        assert np.abs(np.cumsum(own) - places * own.mean()).max() < 1
        rank = ordered.filter(own)["prompt"].str.len_chars().rank().to_numpy() - 1
        edges = np.arange(NUM_LENGTHS + 1) * len(rank) // NUM_LENGTHS
        eighth = np.searchsorted(edges, rank, side="right") - 1
        for stratum in range(NUM_LENGTHS):
            had = np.cumsum(eighth == stratum)
            due = np.arange(1, len(rank) + 1) * (eighth == stratum).mean()
            assert np.abs(had - due).max() < 1


def test_the_seed_decides() -> None:
    values = ["x" * length for length in range(1, 101)]
    draws = {tuple(sample_prompts(frame(values), 10, seed)["prompt_id"]) for seed in range(10)}
    assert len(draws) == 10
    assert tuple(sample_prompts(frame(values), 10, 3)["prompt_id"]) in draws


def test_none_takes_all() -> None:
    assert sample_prompts(frame(["b", "a", "b"]), None, 0)["prompt_id"].to_list() == [0, 1]
