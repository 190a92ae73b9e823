from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from stages.predictor.observations import observe
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Profile


@pytest.fixture
def profile(make_profile: Callable[..., pl.DataFrame]) -> pl.DataFrame:
    return conform(make_profile(4, samples=2), Profile, "p")


def test_the_order_of_rows_does_not_matter(profile: pl.DataFrame) -> None:
    first, again = observe(profile, "p"), observe(profile.sample(fraction=1, shuffle=True), "p")
    assert first.prompts.equals(again.prompts)
    assert list(first.tokens_s) == list(again.tokens_s)


def test_an_empty_response_counts_as_one_token(profile: pl.DataFrame) -> None:
    evidence = observe(profile.with_columns(response_tokens=pl.lit(0, pl.Int64)), "p")
    assert not evidence.observations.log_tokens_s.any()
    assert not evidence.tokens_s.any()


def test_cut_and_aborted_responses_are_censored(profile: pl.DataFrame) -> None:
    reasons = ["stop", "length", "abort", "stop"] * 2
    frame = profile.sort("prompt_id", "sample_index").with_columns(
        pl.Series("finish_reason", reasons, Profile.finish_reason.dtype)
    )
    evidence = observe(frame, "p")
    assert list(evidence.observations.is_censored_s) == [r != "stop" for r in reasons]
    assert list(evidence.is_aborted_s) == [r == "abort" for r in reasons]


def test_weights_count_each_prompt_once(profile: pl.DataFrame) -> None:
    uneven = profile.filter((pl.col("prompt_id") > 0) | (pl.col("sample_index") == 0))
    observations = observe(uneven, "p").observations
    assert list(np.bincount(observations.prompt_s, observations.weight_s)) == [1.0] * 4


def test_the_longest_response_stands_for_a_cap_that_is_not_recorded(profile: pl.DataFrame) -> None:
    unknown = profile.with_columns(max_response_tokens=pl.lit(None, pl.Int64))
    domain = observe(unknown, "p").domain
    assert not domain.is_cap_recorded
    assert domain.cap == profile["response_tokens"].max()
    assert observe(profile, "p").domain.cap == 100_000


@pytest.mark.parametrize(
    ("column", "chosen", "flag"),
    [("model", {"model": "b"}, "--profile-model"),
     ("policy_version", {"policy_version": 7}, "--policy-version")],
)  # fmt: skip
def test_several_models_or_versions_need_a_choice(
    profile: pl.DataFrame, column: str, chosen: dict[str, object], flag: str
) -> None:
    (value,) = chosen.values()
    other = profile.with_columns(pl.lit(value).alias(column))
    both = pl.concat([profile, other], how="vertical_relaxed")
    with pytest.raises(AspError, match=f"'{column}' holds 2 values.*{flag}"):
        observe(both, "p")
    with pytest.raises(AspError, match=f"none of them.*{flag}"):
        observe(both, "p", **{column: "zzz" if column == "model" else 99})  # type: ignore[arg-type]
    assert observe(both, "p", **chosen).domain.num_responses == len(profile)  # type: ignore[arg-type]
