import numpy as np
import pytest

from stages.predictor.backend import Observations
from stages.predictor.censored import MOST_BEYOND
from stages.predictor.ridge import fit_censored_ridge


def observe(log_tokens: np.ndarray, cut_at: float, samples: int = 1) -> Observations:
    num_prompts = len(log_tokens) // samples
    return Observations(
        ["x"] * num_prompts,
        np.repeat(np.arange(num_prompts), samples),
        np.minimum(log_tokens, cut_at),
        log_tokens >= cut_at,
    )


def test_recovers_a_known_law_where_taking_cuts_for_exact_is_biased() -> None:
    rng = np.random.default_rng(0)
    num_prompts, samples, sigma = 4000, 2, 0.8
    feature = rng.standard_normal((num_prompts, 1))
    mu = 5 + 1.5 * feature[:, 0]
    lengths = np.repeat(mu, samples) + sigma * rng.standard_normal(num_prompts * samples)
    observations = observe(lengths, cut_at=6.0, samples=samples)
    assert 0.2 < observations.is_censored_s.mean() < 0.4
    fit = fit_censored_ridge(feature, observations, penalty=1.0)
    naive = fit_censored_ridge(
        feature,
        Observations(
            observations.texts,
            observations.prompt_s,
            observations.log_tokens_s,
            np.zeros_like(observations.is_censored_s),
        ),
        penalty=1.0,
    )
    assert fit.ridge.weight_d[0] == pytest.approx(1.5, abs=0.05)
    assert fit.ridge.intercept == pytest.approx(5.0, abs=0.05)
    assert fit.sigma == pytest.approx(sigma, abs=0.03)
    assert naive.ridge.weight_d[0] < 1.2
    assert naive.ridge.intercept < 4.8


def test_without_cuts_it_is_the_ridge_of_the_textbook() -> None:
    rng = np.random.default_rng(1)
    feature = rng.standard_normal((30, 4)) * [1.0, 5.0, 0.1, 2.0]
    target = rng.standard_normal(30)
    fit = fit_censored_ridge(feature, observe(target, np.inf), penalty=3.0)
    z = (feature - feature.mean(0)) / feature.std(0)
    weight = np.linalg.solve(z.T @ z + 3.0 * np.eye(4), z.T @ (target - target.mean()))
    expected = np.clip(target.mean() + z @ weight, target.min(), target.max())
    assert fit.ridge.predict(feature) == pytest.approx(expected)


def test_a_prompt_counts_once_however_often_it_was_asked() -> None:
    feature = np.zeros((2, 1))
    observations = Observations(
        ["a", "b"], np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 1.0, 3.0]), np.zeros(4, dtype=bool)
    )
    assert fit_censored_ridge(feature, observations).ridge.intercept == pytest.approx(2.0)


def test_predictions_stay_within_what_was_seen() -> None:
    feature = np.arange(50.0)[:, None]
    ridge = fit_censored_ridge(feature, observe(feature[:, 0] / 10, np.inf)).ridge
    assert list(ridge.predict(np.array([[-1e6], [1e6]]))) == [0.0, 4.9]


def test_where_all_or_nearly_all_were_cut_lengths_stay_in_reach_of_the_cap() -> None:
    feature = np.arange(12.0)[:, None]
    every = fit_censored_ridge(feature, observe(np.full(12, 9.0), cut_at=5.0))
    assert every.target_p == pytest.approx(np.full(12, 6.0))
    nearly = fit_censored_ridge(feature, observe(np.array([1.0] + [9.0] * 11), cut_at=5.0))
    assert (nearly.target_p[1:] > 5.0).all()
    assert (nearly.target_p <= 5.0 + MOST_BEYOND).all()
