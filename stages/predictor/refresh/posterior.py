"""What is a prompt's mean log length, given its prediction and its own observed responses?

Empirical Bayes, prompt by prompt. Before: normal, with the drifted prediction as mean and the
shared variance. Each response is that mean plus normal chance; a cut one says "at least this
long". Between policy versions the mean wanders as a random walk, so that what an old version did
weighs less, and no response is forgotten outright: a Kalman filter along the versions (Kalman
1960), whose state after a refresh is the prior of the next. Of cut responses the exact posterior's
mean and variance are taken, by quadrature (assumed density filtering).

Arrays end in an axis legend: _p prompts, _s responses, _u prompts with a cut response, _c their
cut responses, _i pieces of integration, _q quadrature nodes.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from stages.predictor.backend import Floats, Ints
from stages.predictor.refresh.evidence import Observed

NUM_NODES = 48  # of each of four pieces
REACH = 9.0  # deviations beyond which a normal's mass (1e-19) is left out
NEWTON_ROUNDS = 60
BLOCK = 4096  # prompts integrated at a time, which bounds memory


class Belief(NamedTuple):
    """Of each prompt's mean log length."""

    mean_p: Floats
    variance_p: Floats


def blend(
    prior: Belief,
    chance_p: Floats,
    observed: Observed,
    step_variance: float,
    versions: tuple[int, int],
) -> Belief:
    """Pass the observed responses through, version by version.

    Args:
        prior: At version versions[0], prediction and shared variance, above 0.
        chance_p: Variance between the samples of one prompt, above 0.
        observed: In ascending version, from versions[0] to versions[1]; its log lengths are as of
            the drift at versions[1].
        step_variance: Of the random walk of one prompt's mean, a version.
        versions: At which the prior and the returned belief hold.
    """
    belief = Belief(prior.mean_p.copy(), prior.variance_p.copy())
    at_p = np.full(len(chance_p), versions[0])
    answered, starts = np.unique(observed.version_s, return_index=True)
    ranges = pairwise([*starts, len(observed.version_s)])
    for version, (start, end) in zip(answered, ranges, strict=True):
        part = observed.subset(slice(start, end))
        seen, group_s = np.unique(part.prompt_s, return_inverse=True)
        aged_p = belief.variance_p[seen] + step_variance * (version - at_p[seen])
        aged = Belief(belief.mean_p[seen], aged_p)
        belief.mean_p[seen], belief.variance_p[seen] = update(aged, chance_p[seen], group_s, part)
        at_p[seen] = version
    return Belief(belief.mean_p, belief.variance_p + step_variance * (versions[1] - at_p))


def update(prior: Belief, chance_p: Floats, group_s: Ints, observed: Observed) -> Belief:
    """The belief after responses of one version; group_s numbers their prompts."""
    is_cut_s = observed.is_censored_s
    whole_s, cut_s = group_s[~is_cut_s], group_s[is_cut_s]
    count_p = np.bincount(whole_s, minlength=len(chance_p))
    sum_p = np.bincount(whole_s, observed.log_tokens_s[~is_cut_s], len(chance_p))
    variance_p = 1 / (1 / prior.variance_p + count_p / chance_p)
    mean_p = variance_p * (prior.mean_p / prior.variance_p + sum_p / chance_p)
    bound_c = observed.log_tokens_s[is_cut_s]
    cut = np.unique(cut_s)
    for start in range(0, len(cut), BLOCK):
        block = cut[start : start + BLOCK]
        of_block_c = np.isin(cut_s, block)
        mean_p[block], variance_p[block] = _above(
            Belief(mean_p[block], variance_p[block]),
            np.sqrt(chance_p[block]),
            np.searchsorted(block, cut_s[of_block_c]),
            bound_c[of_block_c],
        )
    return Belief(mean_p, variance_p)


def _above(prior: Belief, chance_sigma_u: Floats, prompt_c: Ints, bound_c: Floats) -> Belief:
    """Mean and variance of a normal times the chances that its cut responses lie beyond.

    The density is log-concave, its curvature falls with the mean from that at the mode to the
    prior's, so Gauss-Legendre takes it in four pieces: the wall that the longest cut response
    makes, from there to the mode, above by the mode's width, and further by the prior's.
    """
    sigma_c = chance_sigma_u[prompt_c]
    num_prompts = len(prior.mean_p)

    def slopes(mean_u: Floats) -> tuple[Floats, Floats]:
        """First and second derivative of the log density, the second with its sign turned."""
        z_c = (mean_u[prompt_c] - bound_c) / sigma_c
        hazard_c = np.exp(-(z_c**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(z_c))
        pull_u = np.bincount(prompt_c, hazard_c / sigma_c, num_prompts)
        bend_u = np.bincount(prompt_c, hazard_c * (hazard_c + z_c) / sigma_c**2, num_prompts)
        apart_u = (mean_u - prior.mean_p) / prior.variance_p
        return pull_u - apart_u, bend_u + 1 / prior.variance_p

    # The slope is convex and falls: from where it is positive Newton's steps never pass the mode.
    mode_u = prior.mean_p.copy()
    for _ in range(NEWTON_ROUNDS):
        slope_u, bend_u = slopes(mode_u)
        mode_u = mode_u + slope_u / bend_u
    width_u = 1 / np.sqrt(slopes(mode_u)[1])
    wall_u = np.full(num_prompts, -np.inf)
    np.maximum.at(wall_u, prompt_c, bound_c)
    wall_u = np.minimum(wall_u, mode_u)
    low_u = np.maximum(mode_u - REACH * width_u, wall_u - REACH * chance_sigma_u)
    behind_u = np.clip(wall_u + REACH * chance_sigma_u, low_u, mode_u)
    high_u = mode_u + REACH * width_u
    top_u = high_u + REACH * np.sqrt(prior.variance_p)
    edge_ui = np.stack([low_u, behind_u, mode_u, high_u, top_u], axis=1)
    half_ui = np.diff(edge_ui)[:, :, None] / 2
    node_q, weight_q = np.polynomial.legendre.leggauss(NUM_NODES)
    mean_uq = (edge_ui[:, :-1, None] + half_ui * (1 + node_q)).reshape(num_prompts, -1)
    mass_uq = (half_ui * weight_q).reshape(num_prompts, -1)
    z_cq = (mean_uq[prompt_c] - bound_c[:, None]) / sigma_c[:, None]
    log_density_uq = -((mean_uq - prior.mean_p[:, None]) ** 2) / (2 * prior.variance_p[:, None])
    np.add.at(log_density_uq, prompt_c, log_ndtr(z_cq))
    density_uq = mass_uq * np.exp(log_density_uq - log_density_uq.max(axis=1, keepdims=True))
    density_uq /= density_uq.sum(axis=1, keepdims=True)
    mean_u = (density_uq * mean_uq).sum(axis=1)
    return Belief(mean_u, (density_uq * (mean_uq - mean_u[:, None]) ** 2).sum(axis=1))
