"""How far off is a prediction, and how much of that is chance between samples?

Learned from held-out predictions, since the residuals of training are too small. The deviation
sigma of a response's log length follows the predicted mean mu and the spread f that the forest
found among like prompts:

    log sigma = offset + slope_mu (mu - centre) + slope_spread log(f + floor)

fitted by maximum likelihood with cut responses censored, then scaled so that the central 80% and
90% intervals together cover what they say: the tails of real lengths are heavier than a normal's,
and likelihood alone would make the intervals too wide. How much of sigma^2 is chance between
samples of one prompt is a variance component, estimated where prompts were asked more than once.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row, _c coefficients.
"""

from dataclasses import asdict, dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr, ndtri

from stages.predictor.backend import Floats, Observations
from stages.predictor.ridge import expected_beyond

SIGMA_MIN, SIGMA_MAX = 0.01, 2.0  # log tokens
WIDE_SIGMA = 1.0  # of a predictor that has seen nothing: lengths within a factor of 3.6, 8 in 10
ENOUGH_PROMPTS = 100  # with fewer, sigma is drawn towards WIDE_SIGMA
SPREAD_FLOOR = 0.02  # log tokens, added to the forest's spread, which may be 0
# Of log sigma in mu. exp(mu + sigma^2 / 2) grows with mu while 1 + slope x sigma^2 > 0, so that a
# longer prediction is never undone by its smaller spread.
SLOPE_MAX = 1 / SIGMA_MAX**2
SCALE_MIN, SCALE_MAX = 0.5, 2.0  # bounds of the calibration
LEVELS = (0.8, 0.9)  # central intervals that are calibrated
EM_ROUNDS = 200  # of the variance components
VARIANCE_FLOOR = 1e-4  # of a component, as a share of sigma^2


@dataclass(frozen=True)
class Spread:
    """sigma and sample_sigma as functions of the predicted mean and the forest's spread."""

    offset: float
    slope_mu: float
    slope_spread: float
    centre: float  # log tokens
    lowest: float  # log tokens; mu is clipped to the range in which sigma was fitted
    highest: float
    scale: float  # calibration
    trust: float  # 0 to 1: share of the fitted variance, the rest being WIDE_SIGMA^2
    sample_share: float | None  # sample_sigma / sigma; None: no prompt was asked twice

    def apply(self, mu_p: Floats, forest_spread_p: Floats) -> tuple[Floats, Floats]:
        """sigma and sample_sigma (NaN: not known) of each prompt."""
        coefficient_c = np.array([self.offset, self.slope_mu, self.slope_spread])
        clipped_p = np.clip(mu_p, self.lowest, self.highest) - self.centre
        fitted_p = self.scale * np.exp(_traits(clipped_p, forest_spread_p) @ coefficient_c)
        sigma_p = np.sqrt(self.trust * fitted_p**2 + (1 - self.trust) * WIDE_SIGMA**2)
        sigma_p = np.clip(sigma_p, SIGMA_MIN, SIGMA_MAX)
        share = np.nan if self.sample_share is None else self.sample_share
        return sigma_p, share * sigma_p

    def to_dict(self) -> dict[str, float | None]:
        """As stored."""
        return asdict(self)


def constant_spread() -> Spread:
    """The spread where nothing could be held out."""
    return Spread(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, None)


def fit_spread(mu_p: Floats, forest_spread_p: Floats, observations: Observations) -> Spread:
    """Fit on held-out predictions of the prompts."""
    prompt_s, weight_s = observations.prompt_s, observations.weight_s
    is_cut_s = observations.is_censored_s
    num_prompts = len(mu_p)
    centre, lowest, highest = np.mean(mu_p), np.min(mu_p), np.max(mu_p)
    trait_sc = _traits(mu_p - centre, forest_spread_p)[prompt_s]
    residual_s = observations.log_tokens_s - mu_p[prompt_s]

    def loss(coefficient_c: Floats) -> tuple[float, Floats]:
        """Mean negative log likelihood of a prompt, with a prior worth one prompt; gradient."""
        log_sigma_s = trait_sc @ coefficient_c
        z_s = residual_s * np.exp(-log_sigma_s)
        hazard_s = np.exp(-(z_s**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(-z_s))
        value_s = np.where(is_cut_s, -log_ndtr(-z_s), z_s**2 / 2 + log_sigma_s)
        slope_s = np.where(is_cut_s, -hazard_s * z_s, 1 - z_s**2)
        prior = coefficient_c / num_prompts
        return (
            float(weight_s @ value_s / num_prompts + coefficient_c @ prior / 2),
            trait_sc.T @ (weight_s * slope_s) / num_prompts + prior,
        )

    found = minimize(
        loss,
        np.zeros(3),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-5.0, 2.0), (-SLOPE_MAX, SLOPE_MAX), (0.0, 1.5)],
    )
    sigma_s = np.exp(trait_sc @ found.x)
    scale = _calibrate(residual_s / sigma_s, is_cut_s, weight_s)
    offset, slope_mu, slope_spread = map(float, found.x)
    return Spread(
        offset=offset,
        slope_mu=slope_mu,
        slope_spread=slope_spread,
        centre=float(centre),
        lowest=float(lowest),
        highest=float(highest),
        scale=scale,
        trust=min(1.0, num_prompts / ENOUGH_PROMPTS),
        sample_share=_sample_share(residual_s / (scale * sigma_s), is_cut_s, prompt_s),
    )


def _traits(centred_mu_p: Floats, forest_spread_p: Floats) -> Floats:
    log_spread_p = np.log(forest_spread_p + SPREAD_FLOOR)
    return np.stack([np.ones_like(centred_mu_p), centred_mu_p, log_spread_p], axis=1)


def _calibrate(z_s: Floats, is_cut_s: np.ndarray, weight_s: Floats) -> float:
    """The factor on sigma with which the intervals of LEVELS cover their mean level."""

    def excess(scale: float) -> float:
        return sum(coverage(z_s / scale, is_cut_s, weight_s, q) - q for q in LEVELS)

    low, high = SCALE_MIN, SCALE_MAX
    if excess(low) >= 0 or excess(high) <= 0:
        return low if excess(low) >= 0 else high
    for _ in range(40):  # coverage is a staircase in the scale, so by halves
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) >= 0 else (middle, high)
    return high


def coverage(z_s: Floats, is_cut_s: np.ndarray, weight_s: Floats, level: float) -> float:
    """Share of responses within the central interval of a level; `level` if the model holds.

    A cut response lies somewhere beyond its cut: it counts by the chance, given that, of lying
    inside.

    Args:
        z_s: (log length - mu) / sigma.
        is_cut_s: Which responses are censored at that length.
        weight_s: Weight of each response.
        level: Of the interval, 0 to 1.
    """
    below, above = (1 - level) / 2, (1 + level) / 2
    cdf_s = ndtr(z_s)
    inside_s = np.maximum(above - np.maximum(cdf_s, below), 0.0) / np.maximum(1 - cdf_s, 1e-12)
    is_within_s = np.abs(z_s) <= ndtri(above)
    return float(np.average(np.where(is_cut_s, inside_s, is_within_s), weights=weight_s))


def _sample_share(z_s: Floats, is_cut_s: np.ndarray, prompt_s: np.ndarray) -> float | None:
    """sample_sigma / sigma, by maximum likelihood: z = shared error of the prompt + chance.

    EM over the prompts' shared errors; a cut response is replaced by its expectation beyond the
    cut, given its prompt's.
    """
    samples_p = np.bincount(prompt_s)
    if samples_p.max() < 2:
        return None
    shared, chance = 0.5, 0.5  # variances
    filled_s, extra_s = z_s, np.zeros_like(z_s)
    for _ in range(EM_ROUNDS):
        precision_p = 1 / shared + samples_p / chance
        error_p = np.bincount(prompt_s, filled_s) / chance / precision_p
        beyond_s, variance_s = expected_beyond(error_p[prompt_s], np.sqrt(chance), z_s)
        filled_s = np.where(is_cut_s, beyond_s, z_s)
        extra_s = np.where(is_cut_s, variance_s, 0.0)
        apart_s = (filled_s - error_p[prompt_s]) ** 2 + extra_s + 1 / precision_p[prompt_s]
        chance = max(float(apart_s.mean()), VARIANCE_FLOOR)
        shared = max(float((error_p**2 + 1 / precision_p).mean()), VARIANCE_FLOOR)
    return float(np.sqrt(chance / (chance + shared)))
