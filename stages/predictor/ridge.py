"""Which weighted sum of features gives a prompt's mean log length, some responses being cut?

A cut response says only "at least this long". Taking it for exact pulls every long prompt down, so
the ridge is fitted by expectation-maximisation on the censored normal likelihood (Tobit; Dempster,
Laird and Rubin 1977, section 4.3): a cut response is replaced by its expectation beyond the cut,
then the ridge is solved, until neither moves. Each prompt counts once.

Arrays end in an axis legend: _p prompts, _d features, _s samples of all prompts in a row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_ndtr

from stages.predictor.backend import Floats, Observations

PENALTY = 100.0  # on the squared weights of features scaled to deviation 1, in units of sigma^2
MAX_ROUNDS = 300  # of expectation and maximisation
TOLERANCE = 1e-4  # log tokens; the fit has settled when no prompt moves more
SIGMA_FLOOR = 0.01  # log tokens
MOST_BEYOND = 3.0  # log tokens; no cut response is taken for more than 20 times its length
CONSTANT = 1e-9  # a feature whose deviation is less does not vary


@dataclass(frozen=True)
class CensoredRidge:
    """A linear predictor of the mean log length, kept within the range it was fitted on."""

    weight_d: Floats  # log tokens per unit of the feature
    intercept: float  # log tokens
    lowest: float  # log tokens; predictions are clipped, since a line runs on where data end
    highest: float

    def predict(self, feature_pd: NDArray[np.floating]) -> Floats:
        """The mean log length of each prompt."""
        mu_p = feature_pd.astype(np.float64) @ self.weight_d + self.intercept
        return np.clip(mu_p, self.lowest, self.highest)


@dataclass(frozen=True)
class Fit:
    """A fitted ridge and what it made of the responses."""

    ridge: CensoredRidge
    sigma: float  # residual deviation of the log length of one response
    filled_s: Floats  # log length of each response, a cut one's replaced by its expectation
    target_p: Floats  # the mean of those of each prompt


def fit_censored_ridge(
    feature_pd: NDArray[np.floating], observations: Observations, penalty: float = PENALTY
) -> Fit:
    """Fit the ridge.

    Where every response was cut nothing tells how long they would have been: they are then taken
    to be longer by one unit of log, a factor e.
    """
    num_prompts = len(observations.texts)
    prompt_s, weight_s = observations.prompt_s, observations.weight_s
    is_cut_s = observations.is_censored_s
    seen_s = observations.log_tokens_s + (1.0 if is_cut_s.all() else 0.0)
    is_open_s = is_cut_s & ~is_cut_s.all()

    mean_d = feature_pd.mean(axis=0, dtype=np.float64)
    scale_d = feature_pd.std(axis=0, dtype=np.float64)
    scale_d[scale_d < CONSTANT] = np.inf  # a constant feature says nothing: it becomes 0
    z_pd = (feature_pd - mean_d) / scale_d
    gram_dd = z_pd.T @ z_pd
    solver = cho_factor(gram_dd + penalty * np.eye(len(gram_dd)))
    eigenvalues = np.maximum(np.linalg.eigvalsh(gram_dd), 0.0)
    freedom = 1 + float(np.sum(eigenvalues / (eigenvalues + penalty)))
    residual_share = max(1 - freedom / num_prompts, 1 / num_prompts)

    def solve(target_p: Floats) -> tuple[Floats, Floats]:
        weight_d = cho_solve(solver, z_pd.T @ (target_p - target_p.mean()))
        return weight_d, target_p.mean() + z_pd @ weight_d

    def average(value_s: Floats) -> Floats:
        return np.bincount(prompt_s, weight_s * value_s, num_prompts).astype(np.float64)

    filled_s, extra_s = seen_s, np.zeros_like(seen_s)
    mu_p = np.full(num_prompts, np.inf)
    for _ in range(MAX_ROUNDS):
        target_p = average(filled_s)
        weight_d, new_mu_p = solve(target_p)
        moved = np.max(np.abs(new_mu_p - mu_p))
        mu_p = new_mu_p
        square = average((filled_s - mu_p[prompt_s]) ** 2 + extra_s).mean()
        sigma = max(float(np.sqrt(square / residual_share)), SIGMA_FLOOR)
        if moved < TOLERANCE or not is_open_s.any():
            break
        beyond_s, variance_s = expected_beyond(mu_p[prompt_s], sigma, seen_s)
        beyond_s = np.minimum(beyond_s, seen_s + MOST_BEYOND)
        filled_s = np.where(is_open_s, beyond_s, seen_s)
        extra_s = np.where(is_open_s, variance_s, 0.0)

    weight_d = weight_d / scale_d
    intercept = float(target_p.mean() - mean_d @ weight_d)
    ridge = CensoredRidge(weight_d, intercept, float(target_p.min()), float(target_p.max()))
    return Fit(ridge, sigma, filled_s, target_p)


def expected_beyond(mu_s: Floats, sigma: float | Floats, bound_s: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a normal known to lie beyond a bound."""
    z_s = (bound_s - mu_s) / sigma
    # phi(z) / (1 - Phi(z)), in logs: both vanish far out.
    hazard_s = np.exp(-(z_s**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(-z_s))
    variance_s = np.clip(1 - hazard_s * (hazard_s - z_s), 0.0, 1.0)
    return mu_s + sigma * hazard_s, sigma**2 * variance_s
