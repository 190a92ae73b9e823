"""By which factor must a scale change so that intervals cover what they say?

Split conformal prediction (Papadopoulos et al. 2002): residuals that the scale was not fitted on
are standardised by it, and the factor is where the central 80% and 90% intervals together hold 80
and 90% of them. One factor for all prompts, and one for each domain, drawn towards that of all the
more the fewer prompts the domain has.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri

from stages.lengths.distribution import LengthDistribution
from stages.predictor.backend import Bools, Floats, Observations

SCALE_MIN, SCALE_MAX = 0.25, 4.0
LEVELS = (0.8, 0.9)
ROUNDS = 16  # of halving; the factor is exact to 2e-5
DOMAIN_PROMPTS = 50  # with so many, a domain's own factor counts as much as that of all


def calibrate(lengths: LengthDistribution, observations: Observations) -> float:
    """The factor on sigma of all prompts."""
    of_samples = lengths[observations.prompt_s]
    is_cut_s, weight_s = observations.is_censored_s, observations.weight_s

    def excess(factor: float) -> float:
        scaled = replace(of_samples, sigma_p=factor * of_samples.sigma_p)
        z_s = scaled.normal_score(observations.log_tokens_s)
        return sum(coverage(z_s, is_cut_s, weight_s, level) - level for level in LEVELS)

    low, high = SCALE_MIN, SCALE_MAX
    if excess(low) >= 0 or excess(high) <= 0:
        return low if excess(low) >= 0 else high
    for _ in range(ROUNDS):  # coverage is a staircase in the factor, so by halves
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) >= 0 else (middle, high)
    return high


def calibrate_domains(
    lengths: LengthDistribution, observations: Observations, scale: float
) -> dict[str, float]:
    """The factor of each domain, given that of all; none where no domain is known."""
    domains = observations.domains or ()
    of_domain = {}
    for domain in sorted({d for d in domains if d is not None}):
        is_its_p = np.array([d == domain for d in domains])
        own = calibrate(lengths[is_its_p], observations.subset(is_its_p))
        weight = is_its_p.sum() / (is_its_p.sum() + DOMAIN_PROMPTS)
        of_domain[domain] = float(scale ** (1 - weight) * own**weight)
    return of_domain


def coverage(z_s: Floats, is_cut_s: Bools, weight_s: Floats, level: float) -> float:
    """Share of responses within the central interval of a level; `level` if the model holds.

    A cut response lies somewhere beyond its cut: it counts by the chance, given that, of lying
    inside.

    Args:
        z_s: The standard normal's value at each log length, by its predicted distribution.
        is_cut_s: Which responses are censored at that length.
        weight_s: Weight of each response.
        level: Of the interval, 0 to 1.
    """
    below, above = (1 - level) / 2, (1 + level) / 2
    cdf_s = ndtr(z_s)
    inside_s = np.maximum(above - np.maximum(cdf_s, below), 0.0) / np.maximum(1 - cdf_s, 1e-12)
    is_within_s = np.abs(z_s) <= ndtri(above)
    return float(np.average(np.where(is_cut_s, inside_s, is_within_s), weights=weight_s))
