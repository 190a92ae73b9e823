import numpy as np
import pytest

from stages.predictor.backend import Observations
from stages.predictor.transformer.frozen import deviation, fit_frozen, order_tau
from stages.predictor.transformer.kernel import KernelRidge, fit_kernel_ridge, gaussian


def observe(log_tokens_p: np.ndarray, cut_at: float = np.inf) -> Observations:
    num_prompts = len(log_tokens_p)
    return Observations(
        ["x"] * num_prompts,
        np.arange(num_prompts),
        np.minimum(log_tokens_p, cut_at),
        log_tokens_p >= cut_at,
    )


def waves(num_prompts: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features of which no weighted sum tells the length."""
    rng = np.random.default_rng(seed)
    feature_pd = rng.uniform(-2, 2, (num_prompts, 2)).astype(np.float32)
    mu_p = 5 + np.cos(2 * feature_pd[:, 0])
    return feature_pd, mu_p + 0.2 * rng.standard_normal(num_prompts)


def test_the_kernel_by_hand() -> None:
    one, other = (np.array([row], dtype=np.float16) for row in ([0, 0], [2, 0]))
    assert gaussian(one, one, 0.7).item() == 1
    # A mean squared difference of 4 / 2.
    assert gaussian(one, other, 0.5).item() == pytest.approx(np.exp(-2 / (2 * 0.25)))


def test_without_cuts_it_is_the_kernel_ridge_of_the_textbook() -> None:
    feature_pd, target_p = waves(40)
    fit = fit_kernel_ridge(feature_pd, observe(target_p), width=0.7, penalty=0.5, seed=0)
    kernel = gaussian(fit.remembered_md, fit.remembered_md, 0.7).astype(np.float64)
    mean = target_p.mean()
    mu_p = mean + kernel @ np.linalg.solve(kernel + 0.5 * np.eye(40), target_p - mean)
    expected_p = np.clip(mu_p, target_p.min(), target_p.max())
    assert fit.predict(feature_pd) == pytest.approx(expected_p, abs=1e-4)


def test_cut_responses_do_not_pull_the_prediction_down() -> None:
    feature_pd, length_p = waves(600)
    is_long_p = length_p > 5.8
    fitted, naive = (
        fit_kernel_ridge(feature_pd, seen, 0.3, 0.3, 0).predict(feature_pd)[is_long_p]
        for seen in (observe(length_p, cut_at=5.5), observe(np.minimum(length_p, 5.5)))
    )
    assert naive.max() <= 5.5
    assert fitted.mean() > naive.mean() + 0.2


def test_of_more_prompts_than_it_remembers_it_draws_some() -> None:
    feature_pd, target_p = waves(900)
    fit, other = (
        fit_kernel_ridge(feature_pd, observe(target_p), 0.3, 0.3, seed, most_remembered=300)
        for seed in (0, 1)
    )
    assert len(fit.remembered_md) == len(fit.weight_m) == 300
    assert not np.array_equal(fit.remembered_md, other.remembered_md)
    assert order_tau(fit.predict(feature_pd), observe(target_p)) > 0.6


def test_the_better_kind_of_ridge_is_chosen() -> None:
    feature_pd, target_p = waves(300)
    fold_p = np.arange(300) % 3
    bent = fit_frozen(feature_pd, observe(target_p), fold_p, seed=0)
    assert isinstance(bent.ridge, KernelRidge)
    assert bent.tau == order_tau(bent.mu_p, observe(target_p)) > 0.6
    rng = np.random.default_rng(1)
    many_pd = rng.standard_normal((300, 40)).astype(np.float32)
    straight_p = many_pd.sum(axis=1) + rng.standard_normal(300)
    straight = fit_frozen(many_pd, observe(straight_p), fold_p, seed=0)
    assert not isinstance(straight.ridge, KernelRidge)
    assert straight.tau > 0.8


def test_deviation_by_hand() -> None:
    seen = Observations(
        ["a", "b"], np.array([0, 0, 1]), np.array([1.0, 3.0, 2.0]), np.array([False, False, True])
    )
    # Errors 1 and -1 of one prompt; the cut response of the other may well be as long as 4.
    assert deviation(np.array([2.0, 4.0]), seen) == pytest.approx(np.sqrt(0.5))
