"""Which distribution do the errors of a prediction follow?

The log length of a response is mu + shift + sigma y, y of the shape (`lengths/shape.py`): Student's
t, with degrees of freedom of its own on either side. Its scale sigma follows the predicted mean mu
and the spread f that the forest found among like prompts:

    log sigma = offset + slope_mu (mu - centre) + slope_spread log(f + floor)

All is fitted by maximum likelihood to held-out predictions, since the residuals of training are too
small; cut responses are censored. Real log lengths have heavy tails, more so above than below: a
normal's sigma would have to choose between the tails and the middle.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row, _c coefficients.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, stdtr

from stages.predictor.backend import Bools, Floats, Observations

SPREAD_FLOOR = 0.02  # log tokens, added to the forest's spread, which may be 0
# Of log sigma in mu. exp(mu + sigma^2 / 2) grows with mu while 1 + slope x sigma^2 > 0, so that a
# longer prediction is never undone by its smaller spread.
SIGMA_MAX = 2.0  # log tokens
SLOPE_MAX = 1 / SIGMA_MAX**2
NORMAL, HEAVIEST = 0.01, 0.8  # bounds of 1 / degrees of freedom
STEP = 1e-5  # of the difference quotient in 1 / degrees of freedom
LEAST_CHANCE = 1e-300  # of a cut response, so that its log is finite
TOLERANCE = 1e-8  # relative, of the likelihood
PRIOR = 0.5  # prompts that the prior on slopes and tails is worth


@dataclass(frozen=True)
class Law:
    """The distribution of a log length, given a prediction."""

    offset: float
    slope_mu: float
    slope_spread: float
    shift: float  # log tokens; median of the log length less the prediction
    inverse_nu_below: float  # 1 / degrees of freedom
    inverse_nu_above: float
    centre: float  # log tokens
    lowest: float  # log tokens; mu is clipped to the range in which sigma was fitted
    highest: float

    def sigma(self, mu_p: Floats, forest_spread_p: Floats) -> Floats:
        """The scale of the log lengths of each prompt."""
        coefficient_c = np.array([self.offset, self.slope_mu, self.slope_spread])
        clipped_p = np.clip(mu_p, self.lowest, self.highest) - self.centre
        sigma_p: Floats = np.exp(_traits(clipped_p, forest_spread_p) @ coefficient_c)
        return sigma_p


def fit_law(
    mu_p: Floats, forest_spread_p: Floats, observations: Observations, start: Law | None = None
) -> Law:
    """Fit to held-out predictions of the prompts.

    Args:
        mu_p, forest_spread_p: The predictions.
        observations: The responses to the prompts.
        start: A law that is near, which saves time.
    """
    prompt_s, is_cut_s = observations.prompt_s, observations.is_censored_s
    share_s = observations.weight_s / len(mu_p)
    centre, lowest, highest = float(np.mean(mu_p)), float(np.min(mu_p)), float(np.max(mu_p))
    trait_sc = _traits(mu_p - centre, forest_spread_p)[prompt_s]
    error_s = observations.log_tokens_s - mu_p[prompt_s]

    def loss(x_c: Floats) -> tuple[float, Floats]:
        """Mean negative log likelihood of a prompt, with a weak prior; gradient."""
        log_sigma_s = trait_sc @ x_c[:3]
        y_s = (error_s - x_c[3]) * np.exp(-log_sigma_s)
        value_s, slope_s = _log_likelihood(y_s, x_c[4], x_c[5], is_cut_s)
        value = float(share_s @ (value_s - np.where(is_cut_s, 0.0, log_sigma_s)))
        heavier = [
            _log_likelihood(y_s, x_c[4] + below, x_c[5] + above, is_cut_s)[0]
            for below, above in ((STEP, 0.0), (0.0, STEP))
        ]
        by_tail = [share_s @ (ahead_s - value_s) / STEP for ahead_s in heavier]
        by_scale_s = -slope_s * y_s - ~is_cut_s
        by_shift = -share_s @ (slope_s * np.exp(-log_sigma_s))
        gradient_c = np.array([*(trait_sc.T @ (share_s * by_scale_s)), by_shift, *by_tail])
        prior_c = PRIOR / len(mu_p) * np.where(np.arange(6) == 3, 0.0, x_c)
        return -value + float(x_c @ prior_c) / 2, -gradient_c + prior_c

    x0 = [-0.5, 0.0, 0.5, 0.0, 0.2, 0.3]
    if start:
        x0 = [start.offset, start.slope_mu, start.slope_spread, start.shift,
              start.inverse_nu_below, start.inverse_nu_above]  # fmt: skip
    bounds = [(-5.0, 2.0), (-SLOPE_MAX, SLOPE_MAX), (0.0, 1.5), (-2.0, 2.0)]
    bounds += [(NORMAL, HEAVIEST)] * 2
    found = minimize(
        loss, x0, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": TOLERANCE}
    ).x
    offset, slope_mu, slope_spread, shift, below, above = map(float, found)
    return Law(
        offset, slope_mu, slope_spread, shift, below, above,
        centre=centre, lowest=lowest, highest=highest,
    )  # fmt: skip


def _log_likelihood(
    y_s: Floats, inverse_below: float, inverse_above: float, is_cut_s: Bools
) -> tuple[Floats, Floats]:
    """log of the density of y, or of the chance to be above it where cut; derivative in y."""
    value_s, slope_s = np.empty_like(y_s), np.empty_like(y_s)
    for inverse, is_side_s in ((inverse_below, y_s < 0), (inverse_above, y_s >= 0)):
        nu, y = 1 / inverse, y_s[is_side_s]
        value = -betaln(0.5, nu / 2) - np.log(nu) / 2 - (nu + 1) / 2 * np.log1p(y**2 / nu)
        slope = -(nu + 1) * y / (nu + y**2)
        is_cut = is_cut_s[is_side_s]
        above = np.maximum(stdtr(nu, -y[is_cut]), LEAST_CHANCE)
        slope[is_cut] = -np.exp(value[is_cut]) / above
        value[is_cut] = np.log(above)
        value_s[is_side_s], slope_s[is_side_s] = value, slope
    return value_s, slope_s


def _traits(centred_mu_p: Floats, forest_spread_p: Floats) -> Floats:
    log_spread_p = np.log(forest_spread_p + SPREAD_FLOOR)
    return np.stack([np.ones_like(centred_mu_p), centred_mu_p, log_spread_p], axis=1)
