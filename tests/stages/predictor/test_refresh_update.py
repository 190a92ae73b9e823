"""A lengths table before and after a refresh, on a made-up policy that is known."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.lengths.table import complete
from stages.predictor.refresh.evidence import join
from stages.predictor.refresh.update import RefreshConfig, Refreshed, refresh
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Lengths, Profile

SHARED_SIGMA, CHANCE_SIGMA = 0.3, 0.4  # log tokens
N = 4


def make_lengths(num_prompts: int, **columns: object) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    frame = pl.DataFrame(
        {
            "prompt_id": range(num_prompts),
            "prompt_hash": [f"{i:016x}" for i in range(num_prompts)],
            "mu": rng.normal(5.0, 0.8, num_prompts),
            "sigma": np.hypot(SHARED_SIGMA, CHANCE_SIGMA),
            "sample_sigma": CHANCE_SIGMA,
            "cap": 4096,
            "samples_per_prompt": N,
        }
    ).with_columns(**columns)
    return conform(frame, Lengths, "lengths", complete)


def answers(lengths: pl.DataFrame, log_factor: float = 0.0, version: int = 0) -> pl.DataFrame:
    """Each prompt answered N times, as predicted but for a factor."""
    rng = np.random.default_rng(version + 1)
    mean = lengths["mu"].to_numpy() + log_factor
    mean = mean + rng.normal(0, SHARED_SIGMA, len(mean))
    log = mean[:, None] + rng.normal(0, CHANCE_SIGMA, (len(mean), N))
    tokens = np.clip(np.exp(log).round().astype(int), 1, 4096)
    frame = pl.DataFrame(
        {
            "prompt_id": np.repeat(lengths["prompt_id"].to_numpy(), N),
            "prompt_hash": np.repeat(lengths["prompt_hash"].to_numpy(), N),
            "prompt": "x",
            "model": "m",
            "sample_index": np.tile(np.arange(N), len(mean)),
            "response_tokens": tokens.ravel(),
            "finish_reason": np.where(tokens.ravel() == 4096, "length", "stop"),
            "policy_version": version,
        }
    )
    return conform(frame, Profile, "profile")


def refreshed(
    lengths: pl.DataFrame, profile: pl.DataFrame, version: int = 0, samples: int | None = None
) -> Refreshed:
    observed, _ = join(lengths, profile, "lengths", samples)
    return refresh(lengths, observed, RefreshConfig(), version)


def test_unseen_prompts_get_the_drift_alone() -> None:
    lengths = make_lengths(400)
    done = refreshed(lengths, answers(lengths.head(200), 0.4))
    assert done.drift.offset == pytest.approx(0.4, abs=0.06)
    unseen = done.lengths.tail(200)
    moved = done.drift.apply(lengths["mu"].to_numpy()[200:], np.zeros(200, int), np.ones(200, bool))
    np.testing.assert_allclose(unseen["mu"], moved)
    assert (
        set(unseen["source"]) == {"predicted"} and unseen["source"].dtype == lengths["source"].dtype
    )
    assert set(done.lengths.head(200)["source"]) <= {"blended", "observed"}
    assert unseen["sigma"].mean() == pytest.approx(0.5, abs=0.05)
    assert done.lengths.head(200)["sigma"].mean() < unseen["sigma"].mean() - 0.03
    assert (done.lengths["expected_tokens"] > lengths["expected_tokens"])[200:].mean() > 0.95


def test_intervals_cover_after_a_refresh() -> None:
    """Three responses observed, the fourth told."""
    lengths = make_lengths(800)
    profile = answers(lengths, -0.5)
    is_fourth = pl.col("sample_index") == 3
    table = refreshed(lengths, profile.filter(~is_fourth), samples=3).lengths
    fourth = np.log(profile.filter(is_fourth)["response_tokens"].to_numpy())
    z = (fourth - table["mu"].to_numpy()) / table["sigma"].to_numpy()
    assert np.mean(np.abs(z) < 1.2816) == pytest.approx(0.8, abs=0.035)
    assert np.mean(np.abs(z) < 1.6449) == pytest.approx(0.9, abs=0.03)


def test_a_refresh_of_a_refresh_is_close_to_one_at_once() -> None:
    lengths = make_lengths(400)
    profile = answers(lengths, 0.3)
    is_first = pl.col("prompt_id") < 200
    at_once = refreshed(lengths, profile).lengths
    once = refreshed(lengths, profile.filter(is_first)).lengths
    twice = refreshed(once, profile.filter(~is_first)).lengths
    np.testing.assert_allclose(twice["mu"], at_once["mu"], atol=0.05)
    np.testing.assert_allclose(twice["sigma"], at_once["sigma"], rtol=0.08)


def test_equal_texts_share_their_responses() -> None:
    hashes = [f"{i % 40:016x}" for i in range(80)]
    lengths = make_lengths(80, prompt_hash=pl.Series(hashes), mu=pl.lit(5.0))
    profile = answers(lengths.head(40))
    done = refreshed(lengths, profile)
    assert done.lengths["mu"][:40].to_list() == done.lengths["mu"][40:].to_list()
    assert done.drift.num_prompts == 40


def test_domains_move_apart() -> None:
    lengths = make_lengths(300, domain=pl.Series(["a", "b", "c"] * 100))
    is_a = lengths["domain"] == "a"
    rise = answers(lengths.filter(is_a), 0.6)
    profile = pl.concat([rise, answers(lengths.filter(~is_a))])
    done = refreshed(lengths, profile.filter(pl.col("prompt_id") < 200))
    moved = (done.lengths["mu"] - lengths["mu"])[200:]
    assert moved.filter(is_a[200:]).mean() == pytest.approx(0.6, abs=0.12)
    assert moved.filter(~is_a[200:]).mean() == pytest.approx(0.0, abs=0.12)


def test_without_a_split_two_samples_a_prompt_tell_it() -> None:
    lengths = make_lengths(300, sample_sigma=pl.lit(None, dtype=pl.Float64))
    done = refreshed(lengths, answers(lengths))
    assert done.is_split_known
    assert done.lengths["sample_sigma"].mean() == pytest.approx(CHANCE_SIGMA, rel=0.06)
    single = answers(lengths).filter(pl.col("sample_index") == 0)
    alone = refreshed(lengths, single, samples=1)
    assert not alone.is_split_known and set(alone.lengths["source"]) == {"predicted"}
    assert alone.lengths["sample_sigma"].null_count() == 300


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_only_whole_groups_that_ended_count(random: object) -> None:
    """Whatever rows are missing, aborted, foreign or shuffled, the rule says which are used."""
    lengths = make_lengths(8)
    profile = answers(lengths)
    draw = getattr(random, "random")  # noqa: B009
    keep = [draw() < 0.9 for _ in range(len(profile))]
    reasons = ["abort" if draw() < 0.05 else "stop" for _ in range(len(profile))]
    profile = (
        profile.with_columns(
            finish_reason=pl.Series(reasons, dtype=profile["finish_reason"].dtype),
            prompt_hash=pl.when(pl.col("prompt_id") == 7)
            .then(pl.lit("f" * 16))
            .otherwise("prompt_hash"),
        )
        .filter(pl.Series(keep))
        .sample(fraction=1, shuffle=True, seed=1)
    )
    ended = profile.filter(pl.col("finish_reason") != "abort", pl.col("prompt_id") < 7)
    whole = ended.filter(pl.len().over("prompt_hash") == N)
    if whole.is_empty():
        with pytest.raises(AspError, match="no prompt has a whole sample group"):
            join(lengths, profile, "lengths", None)
        return
    observed, tally = join(lengths, profile, "lengths", None)
    assert tally.num_used == len(observed.prompt_s) == len(whole)
    assert sorted(observed.prompt_s) == sorted(whole["prompt_id"])
    assert tally.num_unmatched == (profile["prompt_id"] == 7).sum()
    assert tally.num_rows == len(profile)
    assert len(profile) == (
        tally.num_used + tally.num_unmatched + tally.num_aborted + tally.num_in_parts
    )
