"""How long is a response, and how long the longest of many?

A response has L = min(exp(X), cap) tokens with X normal of mean mu and deviation sigma. Samples
of one prompt share the prediction's error: X = mu + shared + chance, where chance has deviation
sample_sigma and shared the rest, sqrt(sigma^2 - sample_sigma^2). Ignoring that makes the longest
of n samples look longer than it will be.

Arrays end in an axis legend: _p prompts, _i intervals of integration, _q quadrature nodes.
Everything here is numpy and scipy.special; nothing reads or writes.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REACH = 9.0  # deviations beyond which a normal's mass (1e-19) is left out
NUM_NODES = 48  # quadrature nodes along the log length
BLOCK = 160_000  # prompts integrated at a time
SIGMA_CEILING = 1e6  # deviations of the log length above which it is never between 1 and the cap
LOG_SMALLEST = -30.0  # log of a length below which nothing is integrated: 1e-13 tokens
LOG_FLOOR = -60.0  # log of a probability taken for zero
_Z = np.linspace(-REACH, REACH, 3601)  # grid on which the longest's distribution is tabulated


def expected_tokens(mu_p: Floats, sigma_p: Floats, cap_p: Floats) -> Floats:
    """E[min(exp(X), cap)] in tokens; exact.

    With s = sigma > 0: exp(mu + s^2/2) Phi((ln cap - mu)/s - s) + cap (1 - Phi((ln cap - mu)/s)).
    """
    mu_p, sigma_p, cap_p = np.broadcast_arrays(mu_p, sigma_p, cap_p)
    z_p = _cap_z(mu_p, sigma_p, cap_p)
    # The product is taken in logs: its first factor overflows where the second vanishes. Of a
    # sigma so large that the logs cancel, hardly any mass lies between 1 token and the cap.
    s_p = np.minimum(sigma_p, SIGMA_CEILING)
    log_below_p = mu_p + s_p**2 / 2 + log_ndtr(z_p - s_p)
    log_below_p = np.where(sigma_p > SIGMA_CEILING, -np.inf, log_below_p)
    below_p = np.exp(np.minimum(log_below_p, np.log(cap_p)))
    expected_p: Floats = np.minimum(below_p + cap_p * ndtr(-z_p), cap_p)
    return expected_p


def quantile(mu_p: Floats, sigma_p: Floats, cap_p: Floats, level: float) -> Floats:
    """The length [tokens] that a response stays within with probability `level` in (0, 1)."""
    with np.errstate(over="ignore"):
        log_length_p = mu_p + sigma_p * ndtri(level)
    length_p: Floats = np.exp(np.minimum(log_length_p, np.log(cap_p)))
    return length_p


def cap_risk(mu_p: Floats, sigma_p: Floats, cap_p: Floats) -> Floats:
    """P(L = cap), the chance that a response meets the cap."""
    risk_p: Floats = ndtr(-_cap_z(*np.broadcast_arrays(mu_p, sigma_p, cap_p)))
    return risk_p


def expected_longest(
    mu_p: Floats,
    sigma_p: Floats,
    cap_p: Floats,
    num_samples: int,
    sample_sigma_p: Floats | None = None,
) -> Floats:
    """E of the longest of `num_samples` responses to each prompt, in tokens.

    Args:
        mu_p, sigma_p, cap_p: The prompts' distributions.
        num_samples: Responses per prompt, n.
        sample_sigma_p: Chance between samples of a prompt; NaN or None: all of sigma.
    """
    prompts = np.arange(len(mu_p) + 1)
    return expected_longest_of_sets(mu_p, sigma_p, cap_p, num_samples, prompts, sample_sigma_p)


def expected_longest_of_sets(
    mu_p: Floats,
    sigma_p: Floats,
    cap_p: Floats,
    num_samples: int,
    starts: Ints,
    sample_sigma_p: Floats | None = None,
) -> Floats:
    """E of the longest of all responses to each set of consecutive prompts, in tokens.

    With G_i(t) the chance that all n samples of prompt i stay within t, the expectation over the
    shared error included, E = integral from 0 of 1 - prod_i G_i(t). Below the reach of every
    prompt the integrand is 1; above it 0; between, Gauss-Legendre in log t.

    Args:
        starts: Set k holds prompts starts[k] to starts[k+1] - 1; the last entry is their number.
            No set is empty.
        mu_p, sigma_p, cap_p, num_samples, sample_sigma_p: As in `expected_longest`.
    """
    log_cap_p = np.log(cap_p)
    share_p = _noise_share(sigma_p, sample_sigma_p)
    longest = np.exp(_reach(mu_p, sigma_p, log_cap_p, starts, -REACH))
    set_i, low_i, high_i = _intervals(mu_p, sigma_p, log_cap_p, starts)
    sizes_i = np.diff(starts)[set_i]
    # A block of intervals at a time keeps the prompts-by-nodes matrix within about 64 MB.
    ends_i = np.cumsum(sizes_i)
    edges = np.searchsorted(ends_i, np.arange(0, ends_i[-1] + BLOCK, BLOCK), side="right")
    for first, last in pairwise(np.unique(np.append(edges, len(set_i)))):
        block = slice(first, last)
        offsets = np.concatenate(([0], np.cumsum(sizes_i[block])))
        prompt = np.repeat(starts[set_i[block]] - offsets[:-1], sizes_i[block])
        prompt += np.arange(offsets[-1])
        integral_i = _integrate_above(
            mu_p[prompt], sigma_p[prompt], log_cap_p[prompt], share_p[prompt],
            num_samples, offsets[:-1], low_i[block], high_i[block],
        )  # fmt: skip
        np.add.at(longest, set_i[block], integral_i)
    return np.minimum(longest, np.maximum.reduceat(cap_p, starts[:-1]))


def _reach(
    mu_p: Floats, sigma_p: Floats, log_cap_p: Floats, starts: Ints, deviations: float
) -> Floats:
    """Log length that each set's longest does not fall short of (below 0) or exceed (above 0)."""
    with np.errstate(over="ignore"):
        reach_p = mu_p + deviations * sigma_p
    return np.maximum.reduceat(np.minimum(reach_p, log_cap_p), starts[:-1])


def _intervals(
    mu_p: Floats, sigma_p: Floats, log_cap_p: Floats, starts: Ints
) -> tuple[Ints, Floats, Floats]:
    """Intervals of log length in which each set's integrand is smooth: set, lower and upper end.

    It jumps where one of its prompts meets a cap below the others', so caps are ends too.
    """
    low = _reach(mu_p, sigma_p, log_cap_p, starts, -REACH)
    high = _reach(mu_p, sigma_p, log_cap_p, starts, REACH)
    # A wide interval would leave too few nodes where the tokens are.
    low = np.maximum(low, np.minimum(high, LOG_SMALLEST))
    sets = np.arange(len(low))
    set_p = np.repeat(sets, np.diff(starts))
    point = np.concatenate((low, high, np.clip(log_cap_p, low[set_p], high[set_p])))
    of_set = np.concatenate((sets, sets, set_p))
    order = np.lexsort((point, of_set))
    point, of_set = point[order], of_set[order]
    is_interval = (of_set[1:] == of_set[:-1]) & (point[1:] > point[:-1])
    # A set without spread has no interval; it gets an empty one, so that every set has some.
    empty = np.setdiff1d(sets, of_set[:-1][is_interval])
    return (
        np.concatenate((of_set[:-1][is_interval], empty)),
        np.concatenate((point[:-1][is_interval], low[empty])),
        np.concatenate((point[1:][is_interval], low[empty])),
    )


def _integrate_above(
    mu_p: Floats,
    sigma_p: Floats,
    log_cap_p: Floats,
    share_p: Floats,
    num_samples: int,
    starts: Ints,
    low_i: Floats,
    high_i: Floats,
) -> Floats:
    """Integral over each interval of the chance that the longest is above t, dt, in tokens."""
    node_q, weight_q = np.polynomial.legendre.leggauss(NUM_NODES)
    half_i = (high_i - low_i) / 2
    log_t_iq = low_i[:, None] + half_i[:, None] * (node_q + 1)
    log_t_pq = np.repeat(log_t_iq, np.diff(np.append(starts, len(mu_p))), axis=0)
    log_within_pq = _log_within(log_t_pq, mu_p, sigma_p, log_cap_p, share_p, num_samples)
    log_within_iq = np.add.reduceat(log_within_pq, starts, axis=0)
    above_iq = -np.expm1(np.maximum(log_within_iq, LOG_FLOOR))
    integral_i: Floats = half_i * ((above_iq * np.exp(log_t_iq)) @ weight_q)
    return integral_i


def log_all_within(
    log_t_q: Floats,
    mu_p: Floats,
    sigma_p: Floats,
    cap_p: Floats,
    num_samples: int,
    sample_sigma_p: Floats | None = None,
) -> Floats:
    """log G, the log of the chance that all samples of a prompt stay within each length.

    Args:
        log_t_q: Logs of the lengths.
        mu_p, sigma_p, cap_p, num_samples, sample_sigma_p: As in `expected_longest`.

    Returns:
        Prompts by lengths, at least LOG_FLOOR.
    """
    share_p = _noise_share(sigma_p, sample_sigma_p)
    log_t_pq = np.broadcast_to(log_t_q, (len(mu_p), len(log_t_q)))
    return _log_within(log_t_pq, mu_p, sigma_p, np.log(cap_p), share_p, num_samples)


def _log_within(
    log_t_pq: Floats,
    mu_p: Floats,
    sigma_p: Floats,
    log_cap_p: Floats,
    share_p: Floats,
    num_samples: int,
) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z_pq = (log_t_pq - mu_p[:, None]) / sigma_p[:, None]
    z_pq = np.where(sigma_p[:, None] > 0, z_pq, np.where(log_t_pq >= mu_p[:, None], REACH, -REACH))
    z_pq = np.where(log_t_pq >= log_cap_p[:, None], REACH, z_pq)
    return _log_all_within(z_pq, num_samples, share_p)


def _noise_share(sigma_p: Floats, sample_sigma_p: Floats | None) -> Floats:
    """sample_sigma / sigma in steps of 0.01, 1 where unknown: few values, so few tables."""
    if sample_sigma_p is None:
        return np.ones_like(sigma_p)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share_p = np.round(sample_sigma_p / sigma_p, 2)
    return np.where(np.isfinite(share_p), np.clip(share_p, 0.0, 1.0), 1.0)


def _log_all_within(z_pq: Floats, num_samples: int, share_p: Floats) -> Floats:
    """log of the chance that all samples stay within mu + sigma z, by interpolation."""
    log_within_pq = np.empty_like(z_pq)
    for share in np.unique(share_p):
        rows = share_p == share
        table = _tabulate_log_all_within(num_samples, float(share))
        log_within_pq[rows] = np.interp(z_pq[rows], _Z, table)
    return log_within_pq


@lru_cache(maxsize=256)
def _tabulate_log_all_within(num_samples: int, share: float) -> Floats:
    """log E[Phi((z - sqrt(1 - share^2) e) / share)^n] over a standard normal e, on the grid _Z."""
    if share == 1.0:
        log_within = num_samples * log_ndtr(_Z)
    elif share == 0.0 or num_samples == 1:
        log_within = log_ndtr(_Z)
    else:
        # The trapezoid rule on a fine grid: Gauss-Hermite would miss the step of a small share.
        e = np.linspace(-REACH, REACH, 721)
        mass = np.exp(-(e**2) / 2)
        mass /= mass.sum()
        z = (_Z[:, None] - np.sqrt(1 - share**2) * e) / share
        log_within = np.log(np.exp(num_samples * log_ndtr(z)) @ mass + np.exp(LOG_FLOOR))
    log_within[-1] = 0.0
    floored: Floats = np.maximum(log_within, LOG_FLOOR)
    return floored


def _cap_z(mu_p: Floats, sigma_p: Floats, cap_p: Floats) -> Floats:
    """(ln cap - mu) / sigma, the cap in deviations; +-inf where sigma is 0, -inf at a met cap."""
    distance_p = np.log(cap_p) - mu_p
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z_p = distance_p / sigma_p
    return np.where(sigma_p > 0, z_p, np.where(distance_p > 0, np.inf, -np.inf))
