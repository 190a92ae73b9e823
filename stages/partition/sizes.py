"""How many prompts may a minibatch hold, and how many minibatches are there to be?"""

import math
from dataclasses import dataclass

LARGEST_SIZE = 2**53  # prompts; floats hold every whole number up to it


@dataclass(frozen=True)
class Sizes:
    """Legal minibatch sizes [prompts] and how many minibatches there are to be."""

    lo: int
    hi: int
    count: int
    is_within_slack: bool


def sizes_for(num_prompts: int, batch_size: int, slack: float) -> Sizes:
    """Sizes within batch_size x (1 +- slack), and the feasible count nearest N / batch_size.

    A count m is feasible where m lo <= N <= m hi; of two as near the larger is taken. Where none
    is feasible, ceil(N / batch_size) minibatches whose sizes differ by at most one.
    """
    tolerance = 1e-9  # 10 x (1 - 0.1) is 9, whatever floating point says
    lo = max(1, math.ceil(batch_size * (1 - slack) - tolerance))
    hi = min(math.floor(batch_size * (1 + slack) + tolerance), LARGEST_SIZE)
    fewest, most = math.ceil(num_prompts / hi), num_prompts // lo
    if fewest > most:
        count = math.ceil(num_prompts / batch_size)
        return Sizes(num_prompts // count, math.ceil(num_prompts / count), count, False)
    nearest = math.floor(num_prompts / batch_size + 0.5)
    return Sizes(lo, hi, min(max(nearest, fewest), most), True)
