"""How long is the longest response of a set of prompts, in expectation?

With G_i(t) the chance that all samples of prompt i stay within t, the error that they share
included, E = integral from 0 of 1 - prod_i G_i(t). Below the reach of every prompt the integrand
is 1, above it 0; between, Gauss-Legendre in log t on intervals within which it is smooth.

Arrays end in an axis legend: _p prompts, _i intervals of integration, _q quadrature nodes.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from stages.lengths.shape import LOG_FLOOR, REACH, Floats, Ints

LogWithin = Callable[[Ints, Floats], Floats]  # of rows, log t a row: log G

# Deviations of the underlying normal at which the intervals end: that the farthest-reaching prompt
# of a set be there is where its integrand bends.
REACHES = (-REACH, -2.0, 0.0, 2.0, 4.0, REACH)
NUM_NODES = 16  # quadrature nodes an interval
BLOCK = 8_000  # prompts integrated at a time: their nodes stay in the cache
LOG_SMALLEST = -30.0  # log of a length below which nothing is integrated: 1e-13 tokens
LOG_NEGLIGIBLE = -12.0  # log of the share of the median below which the integrand is taken for 1
_NODE_Q, _WEIGHT_Q = np.polynomial.legendre.leggauss(NUM_NODES)


def of_sets(
    reach_zp: Sequence[Floats], mu_p: Floats, log_cap_p: Floats, starts: Ints, log_within: LogWithin
) -> Floats:
    """E of the longest response of each set of consecutive prompts, in tokens.

    Args:
        reach_zp: Log length of each prompt at each of REACHES, not capped.
        mu_p: Medians of the log lengths.
        log_cap_p: Logs of the caps.
        starts: First prompt of each set, and the number of prompts. No set is empty.
        log_within: log of the chance that all samples of a prompt stay within a length.
    """
    point_zk = [np.maximum.reduceat(np.minimum(r, log_cap_p), starts[:-1]) for r in reach_zp]
    median_k = np.maximum.reduceat(np.minimum(mu_p, log_cap_p), starts[:-1])
    low_k = np.maximum(point_zk[0], median_k + LOG_NEGLIGIBLE)
    low_k = np.maximum(low_k, np.minimum(point_zk[-1], LOG_SMALLEST))
    longest_k = np.exp(low_k)
    set_i, low_i, high_i = _intervals(point_zk, low_k, log_cap_p, starts)
    sizes_i = np.diff(starts)[set_i]
    # A block of intervals at a time keeps the prompts-by-nodes matrix in the cache.
    ends_i = np.cumsum(sizes_i)
    edges = np.searchsorted(ends_i, np.arange(0, ends_i[-1] + BLOCK, BLOCK), side="right")
    for first, last in pairwise(np.unique(np.append(edges, len(set_i)))):
        block = slice(first, last)
        offsets = np.concatenate(([0], np.cumsum(sizes_i[block])))
        prompt = np.repeat(starts[set_i[block]] - offsets[:-1], sizes_i[block])
        prompt += np.arange(offsets[-1])
        half_i = (high_i[block] - low_i[block]) / 2
        log_t_iq = low_i[block, None] + half_i[:, None] * (_NODE_Q + 1)
        log_t_pq = np.repeat(log_t_iq, sizes_i[block], axis=0)
        log_within_iq = np.add.reduceat(log_within(prompt, log_t_pq), offsets[:-1], axis=0)
        above_iq = -np.expm1(np.maximum(log_within_iq, LOG_FLOOR))
        area_i = (above_iq * np.exp(log_t_iq) * _WEIGHT_Q).sum(axis=1)
        np.add.at(longest_k, set_i[block], half_i * area_i)
    return np.minimum(longest_k, np.exp(np.maximum.reduceat(log_cap_p, starts[:-1])))


def _intervals(
    point_zk: Sequence[Floats], low_k: Floats, log_cap_p: Floats, starts: Ints
) -> tuple[Ints, Floats, Floats]:
    """Intervals of log length in which each set's integrand is smooth: set, lower and upper end.

    It jumps where one of its prompts meets a cap below the others', so caps are ends too.
    """
    high_k = point_zk[-1]
    sets = np.arange(len(low_k))
    set_p = np.repeat(sets, np.diff(starts))
    inner_k = [np.clip(point_k, low_k, high_k) for point_k in point_zk[1:]]
    point = np.concatenate((low_k, *inner_k, np.clip(log_cap_p, low_k[set_p], high_k[set_p])))
    of_set = np.concatenate((np.tile(sets, 1 + len(inner_k)), set_p))
    order = np.lexsort((point, of_set))
    point, of_set = point[order], of_set[order]
    is_interval = (of_set[1:] == of_set[:-1]) & (point[1:] > point[:-1])
    # A set without spread has no interval; it gets an empty one, so that every set has some.
    empty = np.setdiff1d(sets, of_set[:-1][is_interval])
    return (
        np.concatenate((of_set[:-1][is_interval], empty)),
        np.concatenate((point[:-1][is_interval], low_k[empty])),
        np.concatenate((point[1:][is_interval], low_k[empty])),
    )
