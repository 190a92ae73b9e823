"""How much of each minibatch is still running after so many tokens?

Everything that a token budget costs or saves is an integral over one of these curves: expected
tokens up to t integrate the responses still running, expected time the chance that any is.

Arrays end in an axis legend: _p prompts, _b minibatches, _q points of the token grid.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stages.lengths.distribution import LengthDistribution

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_POINTS = 129  # of the token grid, before those that round to the same token are merged
BLOCK = 20_000  # prompts evaluated at a time, which bounds memory


@dataclass(frozen=True)
class Unfinished:
    """What is still running just before each length, in expectation."""

    t_q: Floats  # lengths [tokens]: 0, then whole numbers, log-spaced to the largest cap
    any_bq: Floats  # chance that any response of the minibatch is running
    responses_bq: Floats  # responses of the minibatch that are running
    groups_q: Floats  # sample groups, of all minibatches, with a response running

    @cached_property
    def responses_q(self) -> Floats:
        """Responses of all minibatches that are running."""
        running_q: Floats = self.responses_bq.sum(axis=0)
        return running_q

    def up_to(self, curve_q: Floats) -> Floats:
        """Integral of a curve from 0 to each length of the grid; over the last axis."""
        mean = (curve_q[..., 1:] + curve_q[..., :-1]) / 2
        steps = np.cumsum(mean * np.diff(self.t_q), axis=-1)
        return np.concatenate((np.zeros((*steps.shape[:-1], 1)), steps), axis=-1)


def unfinished(distribution: LengthDistribution, num_samples: int, ends_b: Ints) -> Unfinished:
    """The curves of minibatches of consecutive prompts that end before each of `ends_b`.

    Args:
        distribution: Of the lengths of the prompts, in the order of the minibatches.
        num_samples: Responses a prompt, n.
        ends_b: Ascending; the last is the number of prompts.
    """
    tokens = np.exp(np.linspace(0.0, np.log(distribution.cap_p.max()), NUM_POINTS))
    t_q = np.concatenate(([0.0], np.unique(np.round(tokens))))
    # Just before: a response that meets its cap still runs there.
    log_t_q = np.log(t_q[1:]) - 1e-9
    any_bq = np.ones((len(ends_b), len(t_q)))
    responses_bq = np.empty_like(any_bq)
    groups_q = np.zeros(len(t_q))
    groups_q[0] = len(distribution)
    for first, last in pairwise(_blocks(ends_b)):
        start = int(ends_b[first - 1]) if first else 0
        part = distribution[start : int(ends_b[last - 1])]
        starts = np.concatenate(([start], ends_b[first : last - 1])) - start
        within_pq = part.log_all_within(log_t_q, num_samples)
        any_bq[first:last, 1:] = -np.expm1(np.add.reduceat(within_pq, starts, axis=0))
        groups_q[1:] += -np.expm1(within_pq).sum(axis=0)
        one_pq = -np.expm1(part.log_all_within(log_t_q, 1))
        responses_bq[first:last, 1:] = num_samples * np.add.reduceat(one_pq, starts, axis=0)
    responses_bq[:, 0] = num_samples * np.diff(ends_b, prepend=0)
    return Unfinished(t_q, any_bq, responses_bq, groups_q)


def _blocks(ends_b: Ints) -> Ints:
    """First minibatch of each block of about BLOCK prompts, and the number of minibatches."""
    firsts = np.unique(np.searchsorted(ends_b, np.arange(0, ends_b[-1], BLOCK), side="right"))
    return np.append(firsts, len(ends_b))
