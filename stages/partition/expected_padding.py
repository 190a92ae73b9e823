"""What does a minibatch cost when lengths are uncertain?

Its size times the expected longest of all its samples, or its expected seconds, which rest on the
longest's mean and mean square (`costs/model.py`). E[longest^k] = integral over t of
k t^(k-1) (1 - prod_i G_i(t)), where G_i(t) is the chance that all n samples of prompt i stay within
t, the prediction's error, which they share, included. For every end in the sorted list the product
is built up prompt by prompt, from the end backwards, and read off at each legal size: that takes
O(N x largest size x grid) multiplications, several at once. (Differences of prefix sums of log G
would need an exponential for each size and point, which takes longer.)

Arrays end in an axis legend: _p prompts in sorted order, _q points of the token grid.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from stages.costs.model import CostModel
from stages.lengths.distribution import LengthDistribution
from stages.lengths.longest import LOG_SMALLEST

Floats = NDArray[np.float64]

NUM_POINTS = 64  # of the token grid, or more where lengths range far:
POINTS_A_UNIT = 6.4  # of log length
MOST_POINTS = 256
LOW_REACH = 3.0  # deviations below its mean at which the shortest prompt's grid begins
BLOCK = 20_000  # prompts priced at a time, which bounds memory


def price_windows(
    distribution: LengthDistribution,
    num_samples: int,
    lo: int,
    hi: int,
    model: CostModel | None = None,
    prompt_tokens_p: Floats | None = None,
) -> Floats:
    """Expected cost of every candidate minibatch.

    Args:
        distribution: Of the lengths of the prompts, in sorted order.
        num_samples: Responses a prompt, n.
        lo, hi: Sizes to price [prompts].
        model: Prices are expected seconds; without, size x expected longest [slot-steps of one
            sample].
        prompt_tokens_p: Lengths of the prompts; None: 0, of no effect.

    Returns:
        Row j, column s - lo: the minibatch of the s prompts that end before j; infinite where
        there are not so many.
    """
    log_t_q, weight_q = _token_grid(distribution)
    t_q = np.exp(log_t_q)
    weight_kq = np.stack((weight_q, 2 * t_q * weight_q))
    prices = model or CostModel(step_seconds=0.0, sequence_seconds=1 / num_samples)
    coefficients = tuple(map(float, (
        prices.step_seconds, num_samples * prices.sequence_seconds, num_samples * prices.kv_seconds,
        num_samples * prices.prefill_seconds,
    )))  # fmt: skip
    num_prompts = len(distribution)
    tokens_p = np.zeros(num_prompts) if prompt_tokens_p is None else prompt_tokens_p
    table = np.full((num_prompts + 1, hi - lo + 1), np.inf)
    for first in range(0, num_prompts, BLOCK):
        start, stop = max(0, first + 1 - hi), min(first + BLOCK, num_prompts)
        part = slice(start, stop)
        within_pq = np.exp(distribution[part].log_all_within(log_t_q, num_samples))
        priced = table[first + 1 : stop + 1]
        _fill(
            priced, within_pq, tokens_p[part], first + 1 - start,
            t_q[0], weight_kq, coefficients, lo,
        )  # fmt: skip
    return table


def _token_grid(distribution: LengthDistribution) -> tuple[Floats, Floats]:
    """Log-spaced lengths that hold all the chance, and trapezoid weights of dt = t d(log t)."""
    log_cap_p = np.log(distribution.cap_p)
    with np.errstate(over="ignore"):
        low_p = distribution.mu_p - LOW_REACH * distribution.sigma_p
    low = np.min(np.minimum(low_p, log_cap_p))
    high = np.max(np.minimum(distribution.log_reach(), log_cap_p))
    # A wide grid would leave too few points where the tokens are.
    low = max(float(low), LOG_SMALLEST)
    high = max(float(high), low + 1.0)
    num_points = int(np.clip(POINTS_A_UNIT * (high - low), NUM_POINTS, MOST_POINTS))
    # The chance to be above t jumps to 0 at the cap: the last point lies just below it.
    log_t_q = np.linspace(low, high - 1e-9, num_points)
    weight_q = (high - low) / (num_points - 1) * np.exp(log_t_q)
    weight_q[[0, -1]] /= 2
    return log_t_q, weight_q


@numba.njit(cache=True, parallel=True, fastmath={"reassoc", "contract"})
def _fill(  # type: ignore[no-untyped-def]
    table, within_pq, tokens_p, offset, shortest, weight_kq, coefficients, lo
):
    """Price the minibatches that end at each row of the table; within_pq starts `offset` before."""
    num_rows, num_sizes = table.shape
    num_points = weight_kq.shape[1]
    step, per_prompt, per_token, prefill = coefficients
    mean_beyond, square_beyond = weight_kq[0].sum(), weight_kq[1].sum()
    for row in numba.prange(num_rows):
        end = row + offset
        all_within = np.ones(num_points)
        tokens = 0.0
        for size in range(1, min(lo + num_sizes - 1, end) + 1):
            tokens += tokens_p[end - size]
            for q in range(num_points):
                all_within[q] *= within_pq[end - size, q]
            if size >= lo:
                within = 0.0
                for q in range(num_points):
                    within += weight_kq[0, q] * all_within[q]
                longest = shortest + mean_beyond - within
                price = (step + per_prompt * size + per_token * tokens) * longest + prefill * tokens
                if per_token > 0:
                    within = 0.0
                    for q in range(num_points):
                        within += weight_kq[1, q] * all_within[q]
                    price += per_token * size / 2 * (shortest**2 + square_beyond - within)
                table[row, size - lo] = price
