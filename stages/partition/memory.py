"""Which minibatches fit into the memory for keys and values?

A static engine holds every slot until the longest response ends, so a minibatch of s prompts with
n samples each holds up to n (sum of prompt tokens + s x longest) tokens. The longest is uncertain.
For every response a length is reserved that it outgrows with a chance of at most
RISK / (n x most prompts of a minibatch). By the union bound, whatever samples share, none of a
minibatch outgrows its own with a chance of at least 1 - RISK. So a minibatch fits where

    n (sum of prompt tokens + s x largest reserved) <= kv_tokens,

which is on the safe side twice: the union bound is loose, and an engine that frees what is finished
or shares a prompt among its samples holds less. Every part of a minibatch that fits fits.

Arrays end in an axis legend: _p prompts in the order in which they are cut.
"""

from dataclasses import dataclass, replace

import numba
import numpy as np
import polars as pl

from stages.lengths import table as lengths_table
from stages.partition.programme import Floats, Ints, feasible_counts
from stages.partition.sizes import Sizes
from stages.tables.errors import AspError

RISK = 0.02  # chance at most that a minibatch outgrows what was reserved for it
LEAST_TAIL = 1e-15  # of a quantile that floats can tell from 1


@dataclass(frozen=True)
class Limits:
    """Sizes of the minibatches that are candidates [prompts]."""

    least_p: Ints  # of one that starts at the prompt
    most_p: Ints  # of one that ends with the prompt

    @property
    def lo(self) -> int:
        """The smallest of all."""
        return int(self.least_p.min())


def tokens_needed(
    lengths: pl.DataFrame, num_samples: int, most_prompts: int
) -> tuple[Floats, Floats]:
    """Of each prompt: its own tokens, and those reserved for a response.

    Args:
        lengths: A complete lengths table.
        num_samples: Responses per prompt, n.
        most_prompts: Of a minibatch.
    """
    level = 1 - max(RISK / (num_samples * most_prompts), LEAST_TAIL)
    reserved_p = lengths_table.distribution(lengths).quantile(level)
    return lengths["prompt_tokens"].cast(pl.Float64).to_numpy(), reserved_p


def largest_sizes(
    ordered: pl.DataFrame, num_samples: int, most_prompts: int, kv_tokens: int, name: str
) -> Ints:
    """The most prompts, up to `most_prompts`, of a minibatch that ends with each and fits.

    Raises:
        AspError: A prompt's length is not known, or a prompt does not fit alone.
    """
    num_unknown = ordered["prompt_tokens"].null_count()
    if num_unknown:
        raise AspError(
            f"{name}: column 'prompt_tokens' is null or missing for {num_unknown} of "
            f"{len(ordered)} prompts, and --kv-tokens counts them; fill it in"
        )
    prompt_p, reserved_p = tokens_needed(ordered, num_samples, most_prompts)
    need_p = num_samples * (prompt_p + reserved_p)
    if (need_p > kv_tokens).any():
        worst = int(np.argmax(need_p))
        raise AspError(
            f"{name}: prompt_id {ordered['prompt_id'][worst]} alone needs {need_p[worst]:,.0f} "
            f"tokens, {num_samples} samples of {prompt_p[worst]:,.0f} and up to "
            f"{reserved_p[worst]:,.0f}, which is above --kv-tokens {kv_tokens}; raise it, lower "
            "the cap or --samples-per-prompt, or remove the prompt"
        )
    most_p: Ints = _largest_sizes(prompt_p, reserved_p, most_prompts, kv_tokens / num_samples)
    return most_p


def limit(sizes: Sizes, most_p: Ints) -> tuple[Sizes, Limits]:
    """Keep to what fits. A minibatch below sizes.lo may only start where sizes.lo do not fit.

    Where even so no partition exists, any size below is allowed. The count stays as near to
    sizes.count as is feasible.
    """
    num_prompts = len(most_p)
    is_full_p = most_p[np.minimum(np.arange(num_prompts) + sizes.lo, num_prompts) - 1] >= sizes.lo
    limits = Limits(np.where(is_full_p, sizes.lo, 1), most_p)
    counts = feasible_counts(limits.least_p, most_p)
    if counts is None:
        limits = Limits(np.ones_like(most_p), most_p)
        counts = feasible_counts(limits.least_p, most_p)
    assert counts is not None, "every prompt fits alone"
    fewest, most = counts
    count = min(max(sizes.count, fewest), most)
    return replace(sizes, lo=limits.lo, hi=int(most_p.max()), count=count), limits


def fill_in_order(most_p: Ints) -> Ints:
    """Ends of minibatches that take prompts in order, each as many as are allowed."""
    ends: Ints = _fill_in_order(most_p)
    return ends


@numba.njit(cache=True)
def _largest_sizes(prompt_p, reserved_p, most_prompts, tokens):  # type: ignore[no-untyped-def]
    most_p = np.zeros(len(prompt_p), dtype=np.int64)
    for j in range(1, len(prompt_p) + 1):
        held, longest = 0.0, 0.0
        for size in range(1, min(most_prompts, j) + 1):
            held += prompt_p[j - size]
            longest = max(longest, reserved_p[j - size])
            if held + size * longest > tokens:
                break
            most_p[j - 1] = size
    return most_p


@numba.njit(cache=True)
def _fill_in_order(most_p):  # type: ignore[no-untyped-def]
    ends = np.empty(len(most_p), dtype=np.int64)
    count, start = 0, 0
    for j in range(1, len(most_p) + 1):
        if j - start > most_p[j - 1]:
            ends[count] = start = j - 1
            count += 1
    ends[count] = len(most_p)
    return ends[: count + 1]
