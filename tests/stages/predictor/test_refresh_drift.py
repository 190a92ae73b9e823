"""Drift, present variances, and the verdict, on made-up laws that are known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm
from scipy.stats import t as student

from stages.predictor.refresh import drift, variance
from stages.predictor.refresh.drift import BEND, Drift, bounded_score
from stages.predictor.refresh.evidence import Observed
from stages.predictor.refresh.scores import Tails
from stages.predictor.refresh.variance import Variances
from stages.predictor.refresh.verdict import judge

SHARED, CHANCE = 0.09, 0.16


def world(
    num_prompts: int,
    offset: float = 0.0,
    scale: float = 1.0,
    samples: int = 4,
    log_cap: float = np.inf,
    outliers: float = 0.0,
    step_offset: float = 0.0,
    seed: int = 0,
) -> tuple[np.ndarray, Variances, Observed]:
    """Prompts around 5 log tokens that moved by offset, and per version by step_offset more."""
    rng = np.random.default_rng(seed)
    mu_p = rng.normal(5.0, 1.0, num_prompts)
    prompt_s = np.repeat(np.arange(num_prompts), samples)
    version_p = np.sort(rng.integers(0, 20, num_prompts)) if step_offset else np.zeros(num_prompts)
    mean_p = 5 + offset + scale * (mu_p - 5) + rng.normal(0, np.sqrt(SHARED), num_prompts)
    mean_p += step_offset * version_p
    log_s = mean_p[prompt_s] + rng.normal(0, np.sqrt(CHANCE), len(prompt_s))
    log_s += 5 * (rng.random(len(log_s)) < outliers)
    is_cut_s = log_s >= log_cap
    observed = Observed(
        prompt_s, version_p.astype(np.int64)[prompt_s], np.minimum(log_s, log_cap), is_cut_s
    )
    stated = np.ones(num_prompts)
    return mu_p, Variances(SHARED * stated, CHANCE * stated, stated > 0), observed


def fit(mu_p: np.ndarray, variances: Variances, observed: Observed, version: int = 0) -> Drift:
    domain_p = np.zeros(len(mu_p), dtype=np.int64)
    return drift.fit(mu_p, domain_p, variances, observed, version, 1e-4, 0)


def test_offset_and_scale_are_recovered() -> None:
    found = fit(*world(600, offset=0.4, scale=0.8))
    at_five = found.apply(np.array([5.0]), np.array([0]), np.array([True]))
    assert at_five[0] == pytest.approx(5.4, abs=0.03)
    assert found.scale == pytest.approx(0.8, abs=0.03)
    low, high = found.scale_interval
    assert low < 0.8 < high and high - low < 0.08


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(30):
        found = fit(*world(80, offset=0.3, seed=seed))
        held += found.offset_interval[0] <= 0.3 <= found.offset_interval[1]
    assert held >= 21  # 27 expected; fewer have a chance of 1 in 2000


@pytest.mark.parametrize("log_cap", [5.5, 6.5])
def test_cut_responses_count_as_at_least(log_cap: float) -> None:
    mu_p, variances, observed = world(800, offset=0.3, log_cap=log_cap)
    assert observed.is_censored_s.mean() > 0.1
    exact = replace(observed, is_censored_s=np.zeros_like(observed.is_censored_s))
    found, naive = (fit(mu_p, variances, seen) for seen in (observed, exact))
    present = found.apply(np.array([5.0]), np.array([0]), np.array([True]))
    assert present[0] == pytest.approx(5.3, abs=0.04)
    assert naive.scale < found.scale - 0.1  # taken as exact, cut responses flatten the line
    assert found.scale == pytest.approx(1.0, abs=0.05)


def test_a_few_wild_responses_hardly_move_it() -> None:
    clean, wild = (fit(*world(500, offset=0.2, outliers=share)) for share in (0.0, 0.03))
    assert abs(wild.offset - clean.offset) < 0.05  # their mean would move by 0.15


def test_few_prompts_give_a_drawn_offset_alone() -> None:
    found = fit(*world(drift.ENOUGH_PROMPTS - 1, offset=0.5, scale=0.5))
    assert not found.is_full and found.scale == 1.0
    single = fit(*world(1, offset=2.0, samples=1))
    assert 0 < single.offset < 2.0


def test_the_walk_follows_the_policy() -> None:
    """Lengths grow by 0.02 a version over 20: the drift is that of the last, not of the mean."""
    mu_p, variances, observed = world(2000, step_offset=0.02)
    found = drift.fit(mu_p, np.zeros(2000, dtype=np.int64), variances, observed, 0, 4e-4, 0)
    assert found.offset == pytest.approx(0.02 * 19, abs=0.05)
    assert found.past(np.array([0]))[0] == pytest.approx(-0.02 * 19, abs=0.1)


def test_blended_prompts_move_with_the_walk_alone() -> None:
    mu_p, variances, observed = world(400, offset=0.4)
    blended = np.arange(400) % 2 == 0
    half = Observed(*(part[observed.prompt_s % 2 == 1] for part in vars(observed).values()))
    found = fit(mu_p, replace(variances, is_fresh_p=~blended), half)
    moved = found.apply(mu_p, np.zeros(400, dtype=np.int64), ~blended) - mu_p
    np.testing.assert_allclose(moved[blended], 0.0, atol=1e-3)


@settings(max_examples=30)
@given(st.floats(-6, 6))
def test_the_score_of_a_cut_response_is_its_expectation(z: float) -> None:
    step = 1e-5
    score, slope = bounded_score(np.array([z, z - step, z + step]), np.ones(3, dtype=bool))
    points = [p for p in (-BEND, BEND) if z < p]
    expected, _ = quad(
        lambda x: float(np.clip(x, -BEND, BEND) * norm.pdf(x)), z, 12, points=points or None
    )
    assert score[0] == pytest.approx(expected / norm.sf(z), abs=1e-6)
    if abs(abs(z) - BEND) > 2 * step:
        assert (score[2] - score[1]) / (2 * step) == pytest.approx(slope[0], abs=1e-3)


def test_factors_find_what_changed() -> None:
    """The table states a quarter of the shared and twice the chance variance."""
    mu_p, _, observed = world(800)
    stated = Variances(np.full(800, SHARED / 4), np.full(800, CHANCE * 2), np.ones(800, dtype=bool))
    rest = observed.shifted(mu_p[observed.prompt_s])
    found = variance.fit(stated, np.zeros(800, dtype=np.int64), rest)
    assert found.shared == pytest.approx(4.0, rel=0.12)
    assert found.chance == pytest.approx(0.5, rel=0.06)


def test_the_power_tells_whether_stated_differences_hold() -> None:
    mu_p, _, observed = world(800)
    rest = observed.shifted(mu_p[observed.prompt_s])
    spread = np.exp(np.random.default_rng(1).normal(0, 1, 800))
    stated = Variances(SHARED * spread, CHANCE * spread, np.ones(800, dtype=bool))
    domain_p = np.zeros(800, dtype=np.int64)
    assert variance.fit(stated, domain_p, rest).power == 0.0
    widened = rest.shifted(rest.log_tokens_s * (1 - np.sqrt(spread[rest.prompt_s])))
    assert variance.fit(stated, domain_p, widened).power == 1.0


def test_few_prompts_leave_the_factors_near_one() -> None:
    mu_p, stated, observed = world(3)
    rest = observed.shifted(mu_p[observed.prompt_s] - 3.0)
    found = variance.fit(stated, np.zeros(3, dtype=np.int64), rest)
    assert 1.0 < found.shared < 12.0  # from 3 prompts alone it would be 100


@given(st.floats(-20, 20), st.floats(1.1, 30), st.floats(1.1, 30))
def test_scores_are_at_the_same_quantile(y: float, nu_below: float, nu_above: float) -> None:
    tails = Tails(np.array([nu_below]), np.array([nu_above]))
    one = np.zeros(1, dtype=np.int64)
    rest = Observed(one, one, np.array([0.5 * y]), np.array([False]))
    variances = Variances(np.array([0.09]), np.array([0.16]), np.array([True]))
    z = tails.normal_scores(rest, variances).log_tokens_s[0] / 0.5
    nu = nu_below if y < 0 else nu_above
    assert norm.sf(abs(z)) == pytest.approx(student.sf(abs(y), nu), rel=1e-6)
    assert z * y >= 0


def test_the_verdict_follows_the_order() -> None:
    mu_p, variances, observed = world(500, offset=1.0)
    kept = judge(mu_p, variances, observed, 0)
    assert kept is not None and not kept.should_refit
    other = judge(np.random.default_rng(5).permutation(mu_p), variances, observed, 0)
    assert other is not None and other.should_refit
    assert "fit the predictor again" in other.line()
    assert judge(mu_p, replace(variances, is_fresh_p=mu_p > 1e9), observed, 0) is None
