"""How well do the frozen states of the base model tell the lengths?

This is the bar that tuning has to beat. A linear ridge on the states, or one with a Gaussian kernel
where it orders held-out prompts better. States are many and say the same thing several times over,
so the penalty is found by cross-validation.

Arrays end in an axis legend: _p prompts, _d features.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from stages.predictor.backend import Floats, Ints, Observations
from stages.predictor.ridge import CensoredRidge, fit_censored_ridge
from stages.predictor.transformer.kernel import KernelRidge, fit_kernel_ridge
from stages.predictor.transformer.states import Floats32

LINEAR_PENALTIES = (10.0, 100.0, 1000.0, 10000.0)
WIDTH = 1.0  # of the kernel
KERNEL_PENALTIES = (0.3, 1.0, 3.0)

Ridge = CensoredRidge | KernelRidge
Fitter = Callable[[Floats32, Observations], Ridge]


@dataclass(frozen=True)
class Frozen:
    """A ridge on states and what ridges like it say of prompts they were not fitted on."""

    ridge: Ridge  # fitted on all prompts
    mu_p: Floats  # held out
    sigma: float  # deviation of the log length of a response from mu_p
    tau: float  # of mu_p
    linear_penalty: float  # the best for a linear one


def fit_frozen(state_pd: Floats32, observations: Observations, fold_p: Ints, seed: int) -> Frozen:
    """Fit the ridge that orders held-out prompts best."""

    def linear(penalty: float) -> Fitter:
        return lambda state_pd, seen: fit_censored_ridge(state_pd, seen, penalty).ridge

    def kernel(penalty: float) -> Fitter:
        return lambda state_pd, seen: fit_kernel_ridge(state_pd, seen, WIDTH, penalty, seed)

    fitters = [linear(penalty) for penalty in LINEAR_PENALTIES]
    fitters += [kernel(penalty) for penalty in KERNEL_PENALTIES]
    # One BLAS thread, as in the embedded predictor: the last bits depend on their number.
    with threadpool_limits(1, user_api="blas"):
        held_out = [_held_out(fitter, state_pd, observations, fold_p) for fitter in fitters]
        taus = [order_tau(mu_p, observations) for mu_p in held_out]
        best = int(np.argmax(taus))
        ridge = fitters[best](state_pd, observations)
    linear_penalty = LINEAR_PENALTIES[int(np.argmax(taus[: len(LINEAR_PENALTIES)]))]
    return Frozen(
        ridge, held_out[best], deviation(held_out[best], observations), taus[best], linear_penalty
    )


def _held_out(
    fitter: Fitter, state_pd: Floats32, observations: Observations, fold_p: Ints
) -> Floats:
    mu_p = np.empty(len(fold_p))
    for fold in range(fold_p.max() + 1):
        is_out_p = fold_p == fold
        ridge = fitter(state_pd[~is_out_p], observations.subset(~is_out_p))
        mu_p[is_out_p] = ridge.predict(state_pd[is_out_p])
    return mu_p


def deviation(mu_p: Floats, observations: Observations) -> float:
    """Root mean square of log length less mu; a cut response errs only when mu is shorter."""
    error_s = observations.log_tokens_s - mu_p[observations.prompt_s]
    error_s = np.where(observations.is_censored_s, np.maximum(error_s, 0.0), error_s)
    return float(np.sqrt(np.average(error_s**2, weights=observations.weight_s)))


def order_tau(mu_p: Floats, observations: Observations) -> float:
    """Kendall's tau-b between a prediction and the mean log length of each prompt; 0 if all tie."""
    observed_p = np.bincount(
        observations.prompt_s, observations.weight_s * observations.log_tokens_s
    )
    return float(np.nan_to_num(kendalltau(mu_p, observed_p).statistic))
