"""Does the spread of a lengths table still hold, and how much of it is chance between samples?

A policy in training changes both parts: its answers to one prompt may grow alike while prompts
move apart from what was predicted. A blend that weighed by the old parts would trust the wrong
side. So the shared and the chance variance of each prompt become

    present = factor(domain) x mean x (predicted / mean)^power

with the geometric mean of all prompts. (The shared variance of a prompt blended before stays: its
own responses left it, not a prediction.) The factors, one pair for all prompts and one near it for
each domain, are those of a variance component model of what drift leaves, by EM (Dempster, Laird
and Rubin 1977; a cut response is replaced by its expectation beyond the cut). Each is drawn
towards 1, and a domain's towards that of all, as by so many more prompts that obey it. The power
says how far prompts still differ in spread as predicted: the likeliest of a few, drawn towards 1.

Arrays end in an axis legend: _p prompts, _g observed prompts, _s responses, _d domains.
"""

from dataclasses import dataclass, replace

import numpy as np

from stages.predictor.backend import Bools, Floats, Ints
from stages.predictor.censored import expected_beyond
from stages.predictor.refresh.evidence import Observed

PRIOR_PROMPTS = 30.0  # that obey the table, beside those observed
PRIOR_IN_DOMAIN = 10.0  # that obey the factors of all prompts
POWERS = (1.0, 0.75, 0.5, 0.25, 0.0)
POWER_SIGMA = 0.25  # of the power around 1, before any data
MAX_ROUNDS = 100
TOLERANCE = 3e-3  # of the log of a factor


@dataclass(frozen=True)
class Factors:
    """How present variances follow from predicted ones."""

    shared: float  # of all prompts
    chance: float
    shared_d: Floats
    chance_d: Floats
    power: float


@dataclass(frozen=True)
class Variances:
    """Squared deviations of log lengths, above 0."""

    shared_p: Floats  # error of the prediction, shared by a prompt's samples
    chance_p: Floats  # between the samples of one prompt
    is_fresh_p: Bools  # not blended before: the shared variance is that of a prediction

    def to_power(self, power: float) -> "Variances":
        """Prompts differ by so much of what they did."""
        shared_p = self.shared_p.copy()
        shared_p[self.is_fresh_p] = _to_power(shared_p[self.is_fresh_p], power)
        return replace(self, shared_p=shared_p, chance_p=_to_power(self.chance_p, power))

    def times(self, factors: Factors, domain_p: Ints) -> "Variances":
        """The present variances."""
        powered = self.to_power(factors.power)
        factor_p = np.where(self.is_fresh_p, factors.shared_d[domain_p], 1.0)
        return replace(
            self,
            shared_p=powered.shared_p * factor_p,
            chance_p=powered.chance_p * factors.chance_d[domain_p],
        )


def _to_power(variance_p: Floats, power: float) -> Floats:
    if not len(variance_p):
        return variance_p
    log_p = np.log(variance_p)
    raised_p: Floats = np.exp(power * log_p + (1 - power) * log_p.mean())
    return raised_p


def unchanged(num_domains: int) -> Factors:
    """Variances as predicted."""
    return Factors(1.0, 1.0, np.ones(num_domains), np.ones(num_domains), 1.0)


def fit(variances: Variances, domain_p: Ints, rest: Observed) -> Factors:
    """Estimate the factors and the power.

    Args:
        variances: As the table says, of all its prompts.
        domain_p: Their domains, 0 to D - 1.
        rest: What drift leaves of the responses, a group a prompt.
    """
    best, most = unchanged(int(domain_p.max()) + 1), -np.inf
    for power in POWERS:
        factors, log_likelihood = _fit_factors(variances.to_power(power), domain_p, rest, power)
        log_likelihood -= (power - 1) ** 2 / (2 * POWER_SIGMA**2)
        if log_likelihood > most:
            best, most = factors, log_likelihood
    return best


def _fit_factors(
    variances: Variances, domain_p: Ints, rest: Observed, power: float
) -> tuple[Factors, float]:
    """The factors on variances raised already, and the log likelihood but for a constant."""
    seen, group_s = np.unique(rest.prompt_s, return_inverse=True)
    shared_g, chance_g = variances.shared_p[seen], variances.chance_p[seen]
    num_domains = int(domain_p.max()) + 1
    domain_g, is_fresh_g = domain_p[seen], variances.is_fresh_p[seen]
    samples_g = np.bincount(group_s)
    bound_s, is_cut_s = rest.log_tokens_s, rest.is_censored_s
    filled_s, extra_s = bound_s, np.zeros_like(bound_s)
    factors = unchanged(num_domains)
    for _ in range(MAX_ROUNDS):
        now_shared_g = shared_g * np.where(is_fresh_g, factors.shared_d[domain_g], 1.0)
        now_chance_g = chance_g * factors.chance_d[domain_g]
        precision_g = 1 / now_shared_g + samples_g / now_chance_g
        error_g = np.bincount(group_s, filled_s) / now_chance_g / precision_g
        if is_cut_s.any():
            beyond_s, variance_s = expected_beyond(
                error_g[group_s], np.sqrt(now_chance_g[group_s]), bound_s
            )
            filled_s = np.where(is_cut_s, beyond_s, bound_s)
            extra_s = np.where(is_cut_s, variance_s, 0.0)
        apart_s = (filled_s - error_g[group_s]) ** 2 + extra_s + (1 / precision_g)[group_s]
        shared, shared_d = _pool(
            is_fresh_g * (error_g**2 + 1 / precision_g) / shared_g, is_fresh_g.astype(np.float64),
            domain_g, num_domains,
        )  # fmt: skip
        chance, chance_d = _pool(
            np.bincount(group_s, apart_s) / chance_g, samples_g.astype(np.float64),
            domain_g, num_domains,
        )  # fmt: skip
        moved = np.log(shared_d / factors.shared_d), np.log(chance_d / factors.chance_d)
        factors = Factors(shared, chance, shared_d, chance_d, power)
        if np.max(np.abs(moved)) < TOLERANCE:
            break
    return factors, _log_likelihood(now_shared_g, now_chance_g, group_s, filled_s)


def _pool(sum_g: Floats, count_g: Floats, domain_g: Ints, num_domains: int) -> tuple[float, Floats]:
    """Means of all and by domain, each drawn towards what it stands beside."""
    of_all = float((sum_g.sum() + PRIOR_PROMPTS) / (count_g.sum() + PRIOR_PROMPTS))
    sum_d = np.bincount(domain_g, sum_g, num_domains)
    count_d = np.bincount(domain_g, count_g, num_domains)
    return of_all, (sum_d + PRIOR_IN_DOMAIN * of_all) / (count_d + PRIOR_IN_DOMAIN)


def _log_likelihood(shared_g: Floats, chance_g: Floats, group_s: Ints, rest_s: Floats) -> float:
    """Of groups whose members share a normal error, each with normal chance beside it."""
    samples_g = np.bincount(group_s)
    mean_g = np.bincount(group_s, rest_s) / samples_g
    within_g = np.bincount(group_s, (rest_s - mean_g[group_s]) ** 2)
    whole_g = chance_g + samples_g * shared_g
    spread_g = (samples_g - 1) * np.log(chance_g) + np.log(whole_g)
    misfit_g = within_g / chance_g + samples_g * mean_g**2 / whole_g
    return -float(spread_g.sum() + misfit_g.sum()) / 2
