"""The distribution's mathematics against closed forms, Monte Carlo and its own laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.lengths.lognormal import (
    cap_risk,
    expected_longest,
    expected_longest_of_sets,
    expected_tokens,
    quantile,
)

MU = np.array([5.0, 6.0, 7.0, 3.0, 5.0, 8.0])
SIGMA = np.array([0.5, 1.0, 1.5, 0.0, 2.5, 0.01])
SAMPLE_SIGMA = np.array([0.3, 0.5, 1.5, 0.0, 1.0, 0.005])
CAP = np.array([2048.0, 2048.0, 2048.0, 2048.0, 32768.0, 2048.0])
NUM_SAMPLES = 8


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    """Lengths by simulation: draws x samples x prompts."""
    rng = np.random.default_rng(0)
    shared = np.sqrt(SIGMA**2 - SAMPLE_SIGMA**2) * rng.standard_normal((200_000, 1, 6))
    chance = SAMPLE_SIGMA * rng.standard_normal((200_000, NUM_SAMPLES, 6))
    return np.minimum(np.exp(MU + shared + chance), CAP)


def test_against_monte_carlo_to_one_percent(drawn: np.ndarray) -> None:
    one = drawn[:, 0]
    np.testing.assert_allclose(expected_tokens(MU, SIGMA, CAP), one.mean(0), rtol=0.01)
    np.testing.assert_allclose(
        quantile(MU, SIGMA, CAP, 0.9), np.quantile(one, 0.9, axis=0), rtol=0.015
    )
    np.testing.assert_allclose(cap_risk(MU, SIGMA, CAP), (one >= CAP).mean(0), atol=0.002)
    np.testing.assert_allclose(
        expected_longest(MU, SIGMA, CAP, NUM_SAMPLES, SAMPLE_SIGMA), drawn.max(1).mean(0), rtol=0.01
    )


def test_the_longest_of_a_set_against_monte_carlo(drawn: np.ndarray) -> None:
    expected = expected_longest_of_sets(
        MU, SIGMA, CAP, NUM_SAMPLES, np.array([0, 3, 6]), SAMPLE_SIGMA
    )
    simulated = [drawn[:, :, :3].max((1, 2)).mean(), drawn[:, :, 3:].max((1, 2)).mean()]
    np.testing.assert_allclose(expected, simulated, rtol=0.01)


def test_by_hand() -> None:
    """Without spread all is min(exp(mu), cap); far below the cap the mean is exp(mu + s^2/2)."""
    mu, none, cap = np.log([100.0, 5000.0]), np.zeros(2), np.array([2048.0, 2048.0])
    np.testing.assert_allclose(expected_tokens(mu, none, cap), [100, 2048])
    np.testing.assert_allclose(quantile(mu, none, cap, 0.1), [100, 2048])
    np.testing.assert_allclose(cap_risk(mu, none, cap), [0, 1])
    np.testing.assert_allclose(expected_longest(mu, none, cap, 16), [100, 2048])
    np.testing.assert_allclose(
        expected_tokens(np.array([3.0]), np.array([0.5]), np.array([1e9])), np.exp(3.125)
    )


def test_extremes_stay_finite() -> None:
    mu, sigma = np.array([-700.0, 700.0, 5.0]), np.array([30.0, 30.0, 100.0])
    cap = np.array([1.0, 2.0, 1e6])
    for values in (expected_tokens(mu, sigma, cap), expected_longest(mu, sigma, cap, 64)):
        assert np.isfinite(values).all() and (values >= 0).all() and (values <= cap).all()


prompts = st.lists(
    st.tuples(
        st.floats(0, 9),
        st.floats(0, 2),
        st.sampled_from([0.0, 0.3, 0.7, 1.0]),
        st.integers(1, 40_000),
    ),
    min_size=1,
    max_size=12,
)


@given(prompts, st.sampled_from([1, 2, 8, 31]))
def test_laws_of_the_longest(rows: list[tuple[float, float, float, int]], n: int) -> None:
    mu, sigma, share, cap = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    one = expected_tokens(mu, sigma, cap)
    longest = expected_longest(mu, sigma, cap, n, sigma * share)
    independent = expected_longest(mu, sigma, cap, n)
    more = expected_longest(mu, sigma, cap, n + 1, sigma * share)
    of_all = expected_longest_of_sets(mu, sigma, cap, n, np.array([0, len(mu)]), sigma * share)
    tolerance = 1e-3 * cap.max() + 1e-9
    assert (longest >= one - tolerance).all()  # the longest of n is at least one of them
    assert (longest <= np.minimum(cap, n * one) + tolerance).all()
    assert (more >= longest - tolerance).all()
    assert (independent >= longest - 0.02 * independent - tolerance).all()  # shared error shortens
    assert of_all[0] >= longest.max() - tolerance
    assert of_all[0] <= longest.sum() + tolerance


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mu", [-1e308, 0.0, 5.0, 1e308])
@pytest.mark.parametrize("sigma", [5e-324, 20.0, 1e5, 2e6, 1e154, 1.7e308])
def test_absurd_spreads_agree_with_the_exact_mean(mu: float, sigma: float) -> None:
    """The longest of one is the mean, by integration and by formula."""
    at = np.array([mu]), np.array([sigma]), np.array([2048.0])
    mean = expected_tokens(*at)
    np.testing.assert_allclose(expected_longest(*at, 1), mean, rtol=1e-4, atol=1e-9)
    assert 0 <= quantile(*at, 0.9)[0] <= 2048 * (1 + 1e-9) and 0 <= cap_risk(*at)[0] <= 1
