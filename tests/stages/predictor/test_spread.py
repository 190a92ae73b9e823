from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.lengths import lognormal
from stages.predictor.backend import Observations
from stages.predictor.spread import (
    SIGMA_MAX,
    SIGMA_MIN,
    SLOPE_MAX,
    WIDE_SIGMA,
    constant_spread,
    coverage,
    fit_spread,
)


def simulate(
    num_prompts: int, samples: int, error: np.ndarray, chance: np.ndarray, cut_at: float = np.inf
) -> tuple[np.ndarray, Observations]:
    """Predictions mu, and responses mu + error of the prompt + chance of the sample."""
    rng = np.random.default_rng(0)
    mu = rng.normal(5.0, 1.0, num_prompts)
    location = mu + error * rng.standard_normal(num_prompts)
    prompt = np.repeat(np.arange(num_prompts), samples)
    lengths = location[prompt] + chance[prompt] * rng.standard_normal(len(prompt))
    observations = Observations(
        ["x"] * num_prompts, prompt, np.minimum(lengths, cut_at), lengths >= cut_at
    )
    return mu, observations


@pytest.mark.parametrize("cut_at", [np.inf, 6.0])
def test_recovers_spread_and_its_share_of_chance(cut_at: float) -> None:
    n = 3000
    mu, observations = simulate(n, 3, np.full(n, 0.3), np.full(n, 0.4), cut_at)
    spread = fit_spread(mu, np.full(n, 0.5), observations)
    sigma, sample_sigma = spread.apply(mu, np.full(n, 0.5))
    assert sigma == pytest.approx(np.full(n, 0.5), rel=0.05)
    assert sample_sigma == pytest.approx(np.full(n, 0.4), rel=0.07)


def test_follows_the_spread_that_the_forest_found() -> None:
    n = 3000
    forest_spread = np.where(np.arange(n) % 2, 0.2, 1.0)
    mu, observations = simulate(n, 1, np.zeros(n), forest_spread)
    sigma, _ = fit_spread(mu, forest_spread, observations).apply(mu, forest_spread)
    assert sigma == pytest.approx(forest_spread, rel=0.1)


@pytest.mark.parametrize("cut_at", [np.inf, 6.0])
def test_intervals_cover_what_they_say_on_fresh_responses(cut_at: float) -> None:
    n = 2000
    width = np.exp(np.random.default_rng(1).normal(-1.0, 0.5, n))
    mu, observations = simulate(2 * n, 2, np.tile(width, 2) / 2, np.tile(width, 2), cut_at)
    is_seen = np.arange(2 * n) < n
    spread = fit_spread(mu[is_seen], width, observations.subset(is_seen))
    fresh = observations.subset(~is_seen)
    sigma, _ = spread.apply(mu[~is_seen], width)
    z = (fresh.log_tokens_s - mu[~is_seen][fresh.prompt_s]) / sigma[fresh.prompt_s]
    assert coverage(z, fresh.is_censored_s, fresh.weight_s, 0.8) == pytest.approx(0.8, abs=0.03)
    assert coverage(z, fresh.is_censored_s, fresh.weight_s, 0.9) == pytest.approx(0.9, abs=0.03)


def test_coverage_by_hand() -> None:
    z = np.array([0.0, 1.2, 1.3, -1.3])
    none, one = np.zeros(4, dtype=bool), np.array([True, False, False, False])
    assert coverage(z, none, np.ones(4), 0.8) == pytest.approx(2 / 4)
    assert coverage(z, none, np.array([1.0, 1.0, 0.0, 0.0]), 0.8) == 1.0
    # Cut at the median: beyond it lies half the mass, 0.4 of it within the interval.
    assert coverage(z, one, np.ones(4), 0.8) == pytest.approx((0.8 + 1) / 4)


def test_one_sample_a_prompt_leaves_chance_unknown() -> None:
    mu, observations = simulate(200, 1, np.full(200, 0.3), np.full(200, 0.4))
    spread = fit_spread(mu, np.full(200, 0.5), observations)
    assert spread.sample_share is None
    assert np.isnan(spread.apply(mu, np.full(200, 0.5))[1]).all()


def test_few_prompts_draw_the_spread_towards_wide() -> None:
    mu, observations = simulate(20, 2, np.full(20, 0.01), np.full(20, 0.01))
    sigma, _ = fit_spread(mu, np.full(20, 0.01), observations).apply(mu, np.full(20, 0.01))
    assert sigma == pytest.approx(np.full(20, np.sqrt(0.8)), rel=0.05)
    assert constant_spread().apply(mu, mu)[0] == pytest.approx(np.full(20, WIDE_SIGMA))


@pytest.mark.parametrize("is_cut", [False, True])
def test_equal_residuals_give_a_finite_spread(is_cut: bool) -> None:
    observations = Observations(
        ["x"] * 200, np.arange(200), np.full(200, 5.0), np.full(200, is_cut)
    )
    spread = fit_spread(np.full(200, 5.0), np.zeros(200), observations)
    sigma, _ = spread.apply(np.array([5.0, -1e3, 1e3]), np.array([0.0, 0.0, 50.0]))
    assert ((sigma >= SIGMA_MIN) & (sigma <= SIGMA_MAX)).all()


@given(st.floats(-5, 2), st.floats(-SLOPE_MAX, SLOPE_MAX), st.floats(0, 1.5), st.floats(0, 2))
def test_a_longer_prediction_is_never_undone_by_its_spread(
    offset: float, slope_mu: float, slope_spread: float, forest_spread: float
) -> None:
    mu = np.linspace(0.0, 9.0, 200)
    spread = replace(
        constant_spread(), offset=offset, slope_mu=slope_mu, slope_spread=slope_spread,
        centre=5.0, lowest=1.0, highest=8.0, trust=1.0,
    )  # fmt: skip
    sigma, _ = spread.apply(mu, np.full(200, forest_spread))
    expected = lognormal.expected_tokens(mu, sigma, np.full(200, 1e12))
    assert (np.diff(expected) > 0).all()
