"""Which prompts are alike in the base model's eyes, and how long were their responses?

Ridge regression with a Gaussian kernel on states: it sees what no weighted sum of them does. Cut
responses are replaced by their expectation beyond the cut (`stages/predictor/censored.py`).

Arrays end in an axis legend: _p prompts, _d features, _m prompts that are remembered, _k probes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from stages.predictor.backend import Floats, Observations
from stages.predictor.censored import settle
from stages.predictor.transformer.states import Floats32

MOST_REMEMBERED = 8192  # prompts; of more, as many drawn at random. Time grows with the cube
SCALE_MIN = 1e-6  # of a feature that hardly varies
MAX_ROUNDS = 100  # of expectation and maximisation
NUM_PROBES = 8  # of the trace that tells the degrees of freedom
CHUNK = 2048  # prompts predicted at once, which bounds memory

Floats16 = NDArray[np.float16]


@dataclass(frozen=True)
class KernelRidge:
    """A predictor of the mean log length, kept within the range it was fitted on."""

    remembered_md: Floats16  # features scaled to deviation 1
    weight_m: Floats32  # log tokens
    mean_d: Floats32
    scale_d: Floats32
    width: float  # of the kernel, in root mean squares of the scaled features
    intercept: float  # log tokens
    lowest: float  # log tokens; predictions are clipped
    highest: float

    def predict(self, feature_pd: Floats32) -> Floats:
        """The mean log length of each prompt."""
        chunks = [
            gaussian(
                scaled(feature_pd[start : start + CHUNK], self.mean_d, self.scale_d),
                self.remembered_md,
                self.width,
            )
            @ self.weight_m
            for start in range(0, len(feature_pd), CHUNK)
        ]
        mu_p = np.concatenate(chunks).astype(np.float64) + self.intercept
        return np.clip(mu_p, self.lowest, self.highest)


def scaled(feature_pd: Floats32, mean_d: Floats32, scale_d: Floats32) -> Floats16:
    """Features of deviation 1, as coarse as they are remembered."""
    return ((feature_pd - mean_d) / scale_d).astype(np.float16)


def gaussian(one_pd: Floats16, other_md: Floats16, width: float) -> Floats32:
    """The kernel between prompts: exp(-mean squared difference / (2 width^2))."""
    one, other = one_pd.astype(np.float32), other_md.astype(np.float32)
    square = (one**2).sum(1)[:, None] + (other**2).sum(1)[None] - 2 * one @ other.T
    kernel: Floats32 = np.exp(square / np.float32(-2 * width**2 * one.shape[1]))
    return kernel


def fit_kernel_ridge(
    feature_pd: Floats32,
    observations: Observations,
    width: float,
    penalty: float,
    seed: int,
    most_remembered: int = MOST_REMEMBERED,
) -> KernelRidge:
    """Fit the ridge.

    Args:
        feature_pd: Of the prompts.
        observations: Their responses.
        width: Of the kernel.
        penalty: In units of sigma^2.
        seed: Of the prompts remembered where there are too many, and of the probes.
        most_remembered: Prompts.
    """
    rng = np.random.default_rng(seed)
    if len(feature_pd) > most_remembered:
        is_kept_p = np.zeros(len(feature_pd), dtype=bool)
        is_kept_p[rng.permutation(len(feature_pd))[:most_remembered]] = True
        feature_pd, observations = feature_pd[is_kept_p], observations.subset(is_kept_p)
    num_prompts = len(feature_pd)
    mean_d = feature_pd.mean(axis=0)
    scale_d = np.maximum(feature_pd.std(axis=0), SCALE_MIN)
    remembered_md = scaled(feature_pd, mean_d, scale_d)
    kernel_pm = gaussian(remembered_md, remembered_md, width)
    solver = cho_factor(kernel_pm + np.float32(penalty) * np.eye(num_prompts, dtype=np.float32))
    # Mean of the diagonal of penalty (kernel + penalty)^-1, by random signs (Hutchinson 1990).
    sign_pk = rng.choice(np.array([-1, 1], dtype=np.float32), (num_prompts, NUM_PROBES))
    residual_share = penalty * float(np.mean(sign_pk * cho_solve(solver, sign_pk)))

    def solve(target_p: Floats) -> tuple[tuple[Floats32, float], Floats]:
        intercept = float(target_p.mean())
        weight_m = cho_solve(solver, (target_p - intercept).astype(np.float32))
        return (weight_m, intercept), intercept + (kernel_pm @ weight_m).astype(np.float64)

    settled = settle(observations, solve, max(residual_share, 1 / num_prompts), MAX_ROUNDS)
    (weight_m, intercept), target_p = settled.solution, settled.target_p
    lowest, highest = float(target_p.min()), float(target_p.max())
    return KernelRidge(remembered_md, weight_m, mean_d, scale_d, width, intercept, lowest, highest)
