"""Which weighted sum of features gives a prompt's mean log length, some responses being cut?

Cut responses are replaced by their expectation beyond the cut (`censored.py`).

Arrays end in an axis legend: _p prompts, _d features, _s samples of all prompts in a row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from stages.predictor.backend import Floats, Observations
from stages.predictor.censored import settle

PENALTY = 100.0  # on the squared weights of features scaled to deviation 1, in units of sigma^2
MAX_ROUNDS = 300  # of expectation and maximisation
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
    """Fit the ridge."""
    num_prompts = len(observations.texts)
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

    settled = settle(observations, solve, residual_share, MAX_ROUNDS)
    target_p = settled.target_p
    weight_d = settled.solution / scale_d
    intercept = float(target_p.mean() - mean_d @ weight_d)
    ridge = CensoredRidge(weight_d, intercept, float(target_p.min()), float(target_p.max()))
    return Fit(ridge, settled.sigma, settled.filled_s, target_p)
