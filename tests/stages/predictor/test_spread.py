from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.predictor.backend import Observations, Prediction
from stages.predictor.calibration import coverage
from stages.predictor.law import SIGMA_MAX, SLOPE_MAX
from stages.predictor.spread import (
    SIGMA_MIN,
    WIDE_SIGMA,
    Spread,
    constant_spread,
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
        [f"{p}" for p in range(num_prompts)],
        prompt,
        np.minimum(lengths, cut_at),
        lengths >= cut_at,
    )
    return mu, observations


def covered(prediction: Prediction, observations: Observations, level: float) -> float:
    z = prediction.with_cap(np.inf)[observations.prompt_s].normal_score(observations.log_tokens_s)
    return coverage(z, observations.is_censored_s, observations.weight_s, level)


@pytest.mark.parametrize("cut_at", [np.inf, 6.0])
def test_recovers_spread_and_its_share_of_chance(cut_at: float) -> None:
    n = 3000
    mu, observations = simulate(n, 3, np.full(n, 0.3), np.full(n, 0.4), cut_at)
    told = fit_spread(mu, np.full(n, 0.5), observations).spread.apply(mu, np.full(n, 0.5))
    assert told.mu_p == pytest.approx(mu, abs=0.03)
    assert told.sigma_p == pytest.approx(np.full(n, 0.5), rel=0.06)
    assert told.sample_sigma_p == pytest.approx(np.full(n, 0.4), rel=0.1)
    assert (told.nu_above_p > 15).all()


def test_recovers_a_heavy_upper_tail_and_a_shifted_median() -> None:
    n = 4000
    mu, observations = simulate(n, 1, np.zeros(n), np.zeros(n))
    error = np.random.default_rng(1).standard_t(2.5, n)
    error = np.where(error > 0, error, -np.abs(np.random.default_rng(2).standard_normal(n)))
    heavy = replace(observations, log_tokens_s=mu + 0.2 + 0.3 * error)
    told = fit_spread(mu, np.full(n, 0.5), heavy).spread.apply(mu, np.full(n, 0.5))
    assert told.mu_p == pytest.approx(mu + 0.2, abs=0.03)
    assert told.sigma_p == pytest.approx(np.full(n, 0.3), rel=0.12)
    assert told.nu_above_p[0] == pytest.approx(2.5, rel=0.2)
    assert told.nu_below_p[0] > 10


def test_follows_the_spread_that_the_forest_found() -> None:
    n = 3000
    forest_spread = np.where(np.arange(n) % 2, 0.2, 1.0)
    mu, observations = simulate(n, 1, np.zeros(n), forest_spread)
    told = fit_spread(mu, forest_spread, observations).spread.apply(mu, forest_spread)
    assert told.sigma_p == pytest.approx(forest_spread, rel=0.1)


@pytest.mark.parametrize("cut_at", [np.inf, 6.0])
def test_intervals_cover_what_they_say_on_fresh_responses(cut_at: float) -> None:
    n = 2000
    width = np.exp(np.random.default_rng(1).normal(-1.0, 0.5, n))
    mu, observations = simulate(2 * n, 2, np.tile(width, 2) / 2, np.tile(width, 2), cut_at)
    is_seen = np.arange(2 * n) < n
    fitted = fit_spread(mu[is_seen], width, observations.subset(is_seen))
    fresh = fitted.spread.apply(mu[~is_seen], width), observations.subset(~is_seen)
    held_out = fitted.held_out, observations.subset(is_seen)
    for level in (0.8, 0.9):
        assert covered(*fresh, level) == pytest.approx(level, abs=0.02)
        assert covered(*held_out, level) == pytest.approx(level, abs=0.02)


def test_each_domain_is_calibrated_where_domains_are_known() -> None:
    """Two kinds of task of which nothing but the domain says that one is wilder."""
    n = 1600
    is_wild = np.arange(n) % 2 == 1
    mu, observations = simulate(n, 1, np.zeros(n), np.where(is_wild, 0.8, 0.3))
    domains = tuple(np.where(is_wild, "wild", "tame"))
    known = fit_spread(mu, np.full(n, 0.5), replace(observations, domains=domains))
    unknown = fit_spread(mu, np.full(n, 0.5), observations)
    for is_kind in (is_wild, ~is_wild):
        its = observations.subset(is_kind)

        def of_kind(told: Prediction, rows: np.ndarray = is_kind) -> Prediction:
            return Prediction(*(value[rows] for value in told))

        assert covered(of_kind(known.held_out), its, 0.8) == pytest.approx(0.8, abs=0.06)
        assert abs(covered(of_kind(unknown.held_out), its, 0.8) - 0.8) > 0.1
    of_spread = known.spread.apply(np.full(3, 5.0), np.full(3, 0.5), ["wild", "tame", None])
    assert of_spread.sigma_p[0] > 1.2 * of_spread.sigma_p[2] > 1.2**2 * of_spread.sigma_p[1]


def test_one_sample_a_prompt_leaves_chance_unknown() -> None:
    mu, observations = simulate(200, 1, np.full(200, 0.3), np.full(200, 0.4))
    spread = fit_spread(mu, np.full(200, 0.5), observations).spread
    assert spread.sample_share is None
    assert np.isnan(spread.apply(mu, np.full(200, 0.5)).sample_sigma_p).all()


def test_the_longest_responses_are_in_total_as_long_as_expected() -> None:
    n = 2000
    mu, observations = simulate(n, 4, np.full(n, 0.4), np.full(n, 0.5))
    told = fit_spread(mu, np.full(n, 0.5), observations).held_out
    longest = np.exp(observations.log_tokens_s).reshape(n, 4).max(axis=1)
    expected = told.with_cap(1e6).expected_longest(4)
    assert expected.sum() == pytest.approx(longest.sum(), rel=0.03)


def test_few_prompts_draw_the_spread_towards_wide() -> None:
    mu, observations = simulate(20, 2, np.full(20, 0.01), np.full(20, 0.01))
    told = fit_spread(mu, np.full(20, 0.01), observations).spread.apply(mu, np.full(20, 0.01))
    assert told.sigma_p == pytest.approx(np.full(20, np.sqrt(0.8)), rel=0.05)
    assert constant_spread().apply(mu, mu).sigma_p == pytest.approx(np.full(20, WIDE_SIGMA))


@pytest.mark.parametrize("is_cut", [False, True])
def test_equal_residuals_give_a_finite_spread(is_cut: bool) -> None:
    observations = Observations(
        ["x"] * 200, np.arange(200), np.full(200, 5.0), np.full(200, is_cut)
    )
    spread = fit_spread(np.full(200, 5.0), np.zeros(200), observations).spread
    sigma = spread.apply(np.array([5.0, -1e3, 1e3]), np.array([0.0, 0.0, 50.0])).sigma_p
    assert ((sigma >= SIGMA_MIN) & (sigma <= SIGMA_MAX)).all()


@given(st.floats(-5, 2), st.floats(-SLOPE_MAX, SLOPE_MAX), st.floats(0, 1.5), st.floats(0, 2))
def test_a_longer_prediction_is_never_undone_by_its_spread(
    offset: float, slope_mu: float, slope_spread: float, forest_spread: float
) -> None:
    mu = np.linspace(0.0, 9.0, 200)
    law = replace(
        constant_spread().law, offset=offset, slope_mu=slope_mu, slope_spread=slope_spread,
        centre=5.0, lowest=1.0, highest=8.0,
    )  # fmt: skip
    told = Spread(law, scale=1.0, trust=1.0, sample_share=None).apply(
        mu, np.full(200, forest_spread)
    )
    assert (np.diff(told.with_cap(1e12).expected_tokens()) > 0).all()
