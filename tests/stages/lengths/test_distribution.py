"""The distribution's mathematics against closed forms, Monte Carlo and its own laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, stdtrit

from stages.lengths.distribution import LengthDistribution

NUM_SAMPLES = 8
BUDGET = 300.0  # tokens
LENGTHS = LengthDistribution.of(
    mu=[5.0, 6.0, 7.0, 3.0, 5.0, 8.0, 5.0, 4.0],
    sigma=[0.5, 1.0, 1.5, 0.0, 2.5, 0.01, 0.5, 0.3],
    cap=[2048, 2048, 2048, 2048, 32768, 2048, 4096, 4096],
    sample_sigma=[0.3, 0.5, 1.5, 0.0, 1.0, 0.005, 0.3, 0.15],
    nu_below=[np.inf] * 6 + [5.0, np.inf],
    nu_above=[np.inf] * 6 + [4.0, 3.0],
)


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    """Lengths by simulation: draws x samples x prompts."""
    rng = np.random.default_rng(0)
    num_prompts, lengths = len(LENGTHS), LENGTHS
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num(lengths.sample_sigma_p / lengths.sigma_p)
    shared = np.sqrt(1 - share**2) * rng.standard_normal((200_000, 1, num_prompts))
    z = shared + share * rng.standard_normal((200_000, NUM_SAMPLES, num_prompts))
    for p, (below, above) in enumerate(zip(lengths.nu_below_p, lengths.nu_above_p, strict=True)):
        for nu, side in ((below, z[..., p] < 0), (above, z[..., p] > 0)):
            if np.isfinite(nu):
                z[side, p] = np.sign(z[side, p]) * -stdtrit(nu, ndtr(-np.abs(z[side, p])))
    return np.exp(np.minimum(lengths.mu_p + lengths.sigma_p * z, np.log(lengths.cap_p)))


def test_against_monte_carlo_to_one_percent(drawn: np.ndarray) -> None:
    one, few = drawn.reshape(-1, len(LENGTHS)), {"rtol": 0.01}
    is_capped = one >= LENGTHS.cap_p * (1 - 1e-12)
    np.testing.assert_allclose(LENGTHS.expected_tokens(), one.mean(0), **few)
    np.testing.assert_allclose(LENGTHS.limited(BUDGET), np.minimum(one, BUDGET).mean(0), **few)
    np.testing.assert_allclose(LENGTHS.survival(BUDGET), (one > BUDGET).mean(0), atol=0.003)
    np.testing.assert_allclose(LENGTHS.cap_risk(), is_capped.mean(0), atol=0.003)
    np.testing.assert_allclose(LENGTHS.quantile(0.9), np.quantile(one, 0.9, axis=0), rtol=0.015)
    longest = LENGTHS.expected_longest(NUM_SAMPLES)
    np.testing.assert_allclose(longest, drawn.max(1).mean(0), **few)


def test_what_is_left_of_a_response_against_monte_carlo(drawn: np.ndarray) -> None:
    one = drawn.reshape(-1, len(LENGTHS))
    goes_on = (one > BUDGET).mean(0) > 0.01
    left = np.maximum(one - BUDGET, 0).sum(0)[goes_on] / (one > BUDGET).sum(0)[goes_on]
    np.testing.assert_allclose(LENGTHS.remainder(BUDGET)[goes_on], left, rtol=0.025)


def test_the_longest_of_a_set_against_monte_carlo(drawn: np.ndarray) -> None:
    expected = LENGTHS.expected_longest_of_sets(NUM_SAMPLES, np.array([0, 3, 6, 8]))
    simulated = [drawn[:, :, a:b].max((1, 2)).mean() for a, b in ((0, 3), (3, 6), (6, 8))]
    np.testing.assert_allclose(expected, simulated, rtol=0.01)


def test_by_hand() -> None:
    """Without spread all is min(exp(mu), cap)."""
    lengths = LengthDistribution.of(np.log([100.0, 5000.0]), 0.0, 2048)
    np.testing.assert_allclose(lengths.expected_tokens(), [100, 2048])
    np.testing.assert_allclose(lengths.limited(60), [60, 60])
    np.testing.assert_allclose(lengths.remainder(60), [40, 1988])
    np.testing.assert_allclose(lengths.remainder(150), [0, 1898])
    np.testing.assert_allclose(lengths.quantile(0.1), [100, 2048])
    np.testing.assert_allclose(lengths.cap_risk(), [0, 1])
    np.testing.assert_allclose(lengths.expected_longest(16), [100, 2048], rtol=1e-5)


def test_a_log_normal_has_its_closed_form() -> None:
    """exp(mu + s^2/2) Phi((ln cap - mu)/s - s) + cap (1 - Phi((ln cap - mu)/s))."""
    mu, sigma = np.linspace(0, 8, 40), np.linspace(0.02, 2, 40)
    z = (np.log(2048) - mu) / sigma
    exact = np.exp(mu + sigma**2 / 2) * ndtr(z - sigma) + 2048 * ndtr(-z)
    expected = LengthDistribution.of(mu, sigma, 2048).expected_tokens()
    np.testing.assert_allclose(expected, exact, rtol=1e-6)


def test_tails_are_those_of_student() -> None:
    """At nu = 2 the 97.5th percentile lies 4.303 scales above the median, not 1.960."""
    lengths = LengthDistribution.of(5.0, [0.3, 0.3], 1e9, nu_above=[2.0, np.inf])
    np.testing.assert_allclose(
        lengths.log_quantile(0.975), [5 + 0.3 * 4.303, 5 + 0.3 * 1.960], 1e-4
    )
    np.testing.assert_allclose(lengths.log_quantile(0.025), 5 - 0.3 * 1.960, rtol=1e-4)


def test_rows_are_prompts() -> None:
    part = LENGTHS[np.array([2, 0])]
    assert len(part) == 2
    np.testing.assert_array_equal(part.expected_tokens(), LENGTHS.expected_tokens()[[2, 0]])
    assert len(LENGTHS[2:5]) == 3


def test_extremes_stay_finite() -> None:
    cap = np.array([1.0, 2.0, 1e6])
    for nu in (np.inf, 1.0):
        lengths = LengthDistribution.of([-700.0, 700.0, 5.0], [30.0, 30.0, 100.0], cap, nu_above=nu)
        for values in (lengths.expected_tokens(), lengths.expected_longest(64)):
            assert np.isfinite(values).all() and (values >= 0).all() and (values <= cap).all()


prompts = st.lists(
    st.tuples(
        st.floats(0, 9),
        st.floats(0, 2),
        st.sampled_from([0.0, 0.3, 0.7, 1.0]),
        st.integers(1, 40_000),
        st.sampled_from([1.0, 2.0, 5.0, np.inf]),
        st.sampled_from([1.0, 2.0, 5.0, np.inf]),
    ),
    min_size=1,
    max_size=12,
)


@given(prompts, st.sampled_from([1, 2, 8, 31]))
def test_laws_of_the_longest(rows: list[tuple[float, ...]], n: int) -> None:
    mu, sigma, share, cap, below, above = (
        np.array(column, dtype=float) for column in zip(*rows, strict=True)
    )
    lengths = LengthDistribution.of(mu, sigma, cap, sigma * share, below, above)
    one = lengths.expected_tokens()
    longest = lengths.expected_longest(n)
    independent = LengthDistribution.of(mu, sigma, cap, np.nan, below, above).expected_longest(n)
    of_all = lengths.expected_longest_of_sets(n, np.array([0, len(mu)]))
    tolerance = 1e-3 * cap.max() + 1e-9
    assert (longest >= one - tolerance).all()  # the longest of n is at least one of them
    assert (longest <= np.minimum(cap, n * one) + tolerance).all()
    assert (lengths.expected_longest(n + 1) >= longest - tolerance).all()
    assert (independent >= longest - 0.02 * independent - tolerance).all()  # shared error shortens
    assert of_all[0] >= longest.max() - tolerance
    assert of_all[0] <= longest.sum() + tolerance


@given(prompts, st.floats(1, 50_000), st.floats(1, 50_000))
def test_a_budget_splits_a_response(rows: list[tuple[float, ...]], a: float, b: float) -> None:
    mu, sigma, _, cap, below, above = (np.array(c, dtype=float) for c in zip(*rows, strict=True))
    lengths = LengthDistribution.of(mu, sigma, cap, np.nan, below, above)
    low, high = min(a, b), max(a, b)
    assert (lengths.limited(low) <= lengths.limited(high) * (1 + 1e-3)).all()
    whole = lengths.limited(low) + lengths.survival(low) * lengths.remainder(low)
    np.testing.assert_allclose(whole, lengths.expected_tokens(), rtol=1e-3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mu", [-1e308, 0.0, 5.0, 1e308])
@pytest.mark.parametrize("sigma", [5e-324, 20.0, 1e5, 2e6, 1e154, 1.7e308])
def test_absurd_spreads_agree_with_the_longest_of_one(mu: float, sigma: float) -> None:
    """The longest of one is the mean, by integration over lengths and over the normal."""
    lengths = LengthDistribution.of(mu, sigma, 2048)
    mean = lengths.expected_tokens()
    np.testing.assert_allclose(lengths.expected_longest(1), mean, rtol=1e-4, atol=1e-9)
    assert 0 <= lengths.quantile(0.9)[0] <= 2048 * (1 + 1e-9)
    assert 0 <= lengths.cap_risk()[0] <= 1
