"""What would cut responses have been, were they not cut?

A cut response says only "at least this long". Taking it for exact pulls every long prompt down, so
predictors are fitted by expectation-maximisation on the censored normal likelihood (Tobit;
Dempster, Laird and Rubin 1977, section 4.3): a cut response is replaced by its expectation beyond
the cut, then the predictor is solved, until neither moves. Each prompt counts once.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row.
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from scipy.special import log_ndtr

from stages.predictor.backend import Floats, Observations

TOLERANCE = 1e-4  # log tokens; the fit has settled when no prompt moves more
SIGMA_FLOOR = 0.01  # log tokens
MOST_BEYOND = 3.0  # log tokens; no cut response is taken for more than 20 times its length

Solution = TypeVar("Solution")


class Settled(NamedTuple, Generic[Solution]):
    """A predictor, and what it made of the responses."""

    solution: Solution
    sigma: float  # residual deviation of the log length of one response
    filled_s: Floats  # log length of each response, a cut one's replaced by its expectation
    target_p: Floats  # the mean of those of each prompt


def settle(
    observations: Observations,
    solve: Callable[[Floats], tuple[Solution, Floats]],
    residual_share: float,
    max_rounds: int,
) -> Settled[Solution]:
    """Fit by expectation-maximisation.

    Where every response was cut nothing tells how long they would have been: they are then taken
    to be longer by one unit of log, a factor e.

    Args:
        observations: The responses.
        solve: From the target of each prompt to the predictor, and to what it says of them.
        residual_share: Of the prompts, what is left of them beside the degrees of freedom.
        max_rounds: Of expectation and maximisation.
    """
    num_prompts = len(observations.texts)
    prompt_s, weight_s = observations.prompt_s, observations.weight_s
    is_cut_s = observations.is_censored_s
    seen_s = observations.log_tokens_s + (1.0 if is_cut_s.all() else 0.0)
    is_open_s = is_cut_s & ~is_cut_s.all()

    def average(value_s: Floats) -> Floats:
        return np.bincount(prompt_s, weight_s * value_s, num_prompts).astype(np.float64)

    filled_s, extra_s = seen_s, np.zeros_like(seen_s)
    mu_p = np.full(num_prompts, np.inf)
    for _ in range(max_rounds):
        target_p = average(filled_s)
        solution, new_mu_p = solve(target_p)
        moved, mu_p = np.max(np.abs(new_mu_p - mu_p)), new_mu_p
        square = average((filled_s - mu_p[prompt_s]) ** 2 + extra_s).mean()
        sigma = max(float(np.sqrt(square / residual_share)), SIGMA_FLOOR)
        if moved < TOLERANCE or not is_open_s.any():
            break
        beyond_s, variance_s = expected_beyond(mu_p[prompt_s], sigma, seen_s)
        beyond_s = np.minimum(beyond_s, seen_s + MOST_BEYOND)
        filled_s = np.where(is_open_s, beyond_s, seen_s)
        extra_s = np.where(is_open_s, variance_s, 0.0)
    return Settled(solution, sigma, filled_s, target_p)


def expected_beyond(mu_s: Floats, sigma: float | Floats, bound_s: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a normal known to lie beyond a bound."""
    z_s = (bound_s - mu_s) / sigma
    # phi(z) / (1 - Phi(z)), in logs: both vanish far out.
    hazard_s = np.exp(-(z_s**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(-z_s))
    variance_s = np.clip(1 - hazard_s * (hazard_s - z_s), 0.0, 1.0)
    return mu_s + sigma * hazard_s, sigma**2 * variance_s
