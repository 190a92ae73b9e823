"""A predictor that knows little is not believed, and prompts unlike the profile's are told."""

import dataclasses
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from stages.predictor.backend import Observations
from stages.predictor.directory import Stored
from stages.predictor.evaluation.domains import leave_domains_out, lines
from stages.predictor.evaluation.familiarity import unseen_shares, warn_of_unlike
from stages.predictor.evaluation.marginal import Marginal, fit_marginal
from stages.predictor.observations import observe
from stages.predictor.train import TrainConfig, Training, is_trusted, train
from stages.tables.io import conform
from stages.tables.schemas import Profile

MakeProfile = Callable[..., pl.DataFrame]


def test_few_prompts_or_a_doubtful_lead_are_not_believed(
    make_profile: MakeProfile, stored: Stored
) -> None:
    def is_believed(num_prompts: int, lead: tuple[float, float] | None) -> bool:
        assert stored.scores is not None
        scores = dataclasses.replace(stored.scores, lead=lead)
        evidence = observe(conform(make_profile(num_prompts), Profile, "p"), "p")
        return is_trusted(evidence, Training(stored.predictor, None, scores, 0.1))

    assert is_believed(100, (0.01, 0.2))
    assert not is_believed(99, (0.01, 0.2))
    assert not is_believed(100, (-0.01, 0.2))
    assert not is_believed(100, None)


def test_noise_is_seldom_believed(make_profile: MakeProfile) -> None:
    """The lead's interval is one of 95%, so in 1 of 40 noises it lies above 0 by chance."""
    profile = make_profile(100, samples=1)

    def is_believed(seed: int) -> bool:
        lengths = pl.Series(np.random.default_rng(seed).integers(1, 500, 100))
        noise = profile.with_columns(response_tokens=lengths)
        evidence = observe(conform(noise, Profile, "p"), "p")
        return is_trusted(evidence, train(evidence, TrainConfig()))

    assert sum(map(is_believed, range(4))) <= 1


def test_the_marginal_is_the_distribution_of_all_responses() -> None:
    rng = np.random.default_rng(0)
    log_s = rng.normal(5.0, 0.8, 2000)
    cut = log_s > 6.0
    texts = [f"t{i}" for i in range(1000)]
    observations = Observations(texts, np.repeat(np.arange(1000), 2), np.minimum(log_s, 6.0), cut)
    marginal = fit_marginal(observations)
    prediction = Marginal.from_dict(marginal.to_dict()).predict(["a", "b"])
    assert np.ptp(prediction.mu_p) == 0
    lengths = prediction.with_cap(np.inf)
    for level, z in ((0.5, 0.0), (0.2, -0.842), (0.8, 0.842)):
        assert lengths.log_quantile(level)[0] == pytest.approx(5.0 + 0.8 * z, abs=0.08)


def test_a_marginal_of_few_prompts_is_wide() -> None:
    few = Observations(["a", "b"], np.arange(2), np.array([3.0, 3.1]), np.zeros(2, dtype=bool))
    assert (fit_marginal(few).predict(["c"]).sigma_p > 0.9).all()


def test_unlike_prompts_are_told(stored: Stored) -> None:
    alike = [f"Explain how to add {i} and {i * 7}." for i in range(40)]
    unlike = [f"Write a sonnet on subject number {i}" for i in range(40)]
    assert unseen_shares(stored.words, alike).max() < 0.1
    assert unseen_shares(stored.words, [*unlike, "☃"]).min() > 0.5
    usual = stored.usual_unseen_share
    assert warn_of_unlike(stored.words, alike, usual) is None
    assert warn_of_unlike(stored.words, [*alike, unlike[0]], usual) is None  # one in 41 is usual
    warning = warn_of_unlike(stored.words, [*alike, *unlike], usual)
    assert warning is not None and warning.startswith("50% of the prompts are unlike")


def test_a_left_out_domain_is_predicted_by_the_others(make_profile: MakeProfile) -> None:
    profile = make_profile(90).with_columns(domain=(pl.col("prompt_id") % 3).cast(pl.String))
    evidence = observe(conform(profile, Profile, "p"), "p")
    seen: list[set[str]] = []

    def fit(rest: Observations) -> Marginal:
        seen.append(set(rest.domains or ()))
        return fit_marginal(rest)

    found = leave_domains_out(evidence, fit, seed=0)
    assert sorted(map(len, seen)) == [2, 2, 2]
    assert [score.domain for score in found] == ["all", "0", "1", "2"]
    assert [score.num_prompts for score in found] == [90, 30, 30, 30]
    shortest, longest = found[1], found[3]
    assert shortest.bias > 1 and longest.bias < -0.3  # the others' lengths
    assert shortest.tau is None  # one prediction for all
    assert all(len(line) < 100 for line in lines(found))
