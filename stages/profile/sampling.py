"""Which prompts are asked, where not all are, and in which order?

Stratified: the different prompts of each domain, sorted by characters, are cut into eighths, and
the order takes domains, and eighths within a domain, in turn, each as often as its size says. Every
beginning of the order is a fair sample, wherever the profile ends.

Turns are those of Tijdeman's chairman assignment (Discrete Mathematics 32, 1980): after any number
of turns each of n strata is within 1 - 1/(2n-2) of its share, which no order can better.
"""

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

NUM_LENGTHS = 8  # strata of length in a domain


def different(prompts: pl.DataFrame) -> pl.DataFrame:
    """The prompts of a Prompts table, of equal texts the first only, in the order of the file."""
    return prompts.unique("prompt_hash", keep="first", maintain_order=True)


def sample_prompts(prompts: pl.DataFrame, num_prompts: int | None, seed: int) -> pl.DataFrame:
    """Draw min(num_prompts, all) different prompts; None takes all.

    The result is in the order of the file.
    """
    candidates = different(prompts)
    if num_prompts is None or num_prompts >= len(candidates):
        return candidates
    return in_fair_order(candidates, seed).head(num_prompts).sort("prompt_id")


def in_fair_order(prompts: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Different prompts in an order of which every beginning is stratified.

    It rests on the texts, the domains and the seed alone: the same prompts in another order of the
    file come out in the same one.

    Args:
        prompts: Columns prompt, prompt_hash, domain.
        seed: Decides turns of equal right, and who in a stratum comes first.
    """
    rng = np.random.default_rng(seed)
    ascending = prompts.sort("domain", pl.col("prompt").str.len_chars(), "prompt_hash")
    sizes = ascending.group_by("domain", maintain_order=True).len().get_column("len").to_list()
    rows, start = [], 0
    for size in sizes:
        edges = np.arange(NUM_LENGTHS + 1) * size // NUM_LENGTHS
        eighths = [rng.permutation(np.arange(*edge)) for edge in pairwise(edges)]
        rows.append(start + _taken(fair_turns([len(e) for e in eighths], rng), eighths))
        start += size
    return ascending[_taken(fair_turns(sizes, rng), rows)]


def _taken(turns: NDArray[np.int64], strata: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The members of the strata, each stratum's in its own order, as the turns take them."""
    members = [iter(stratum) for stratum in strata]
    return np.array([next(members[stratum]) for stratum in turns], dtype=np.int64)


def fair_turns(sizes: Sequence[int], rng: np.random.Generator) -> NDArray[np.int64]:
    """The stratum of each of sum(sizes) turns; empty strata have none.

    Each stratum's j-th turn has a first and a last place that keep it within its share; of those
    that may come, the one whose last place is nearest does.
    """
    held = [stratum for stratum in rng.permutation(len(sizes)) if sizes[stratum]]
    num_turns, parts = sum(sizes), 2 * len(held) - 2
    if len(held) < 2:
        return np.full(num_turns, held[0] if held else 0, dtype=np.int64)
    places = []  # first place, last place, tie, stratum
    for tie, stratum in enumerate(held):
        steps = sizes[stratum] * parts
        for turn in range(sizes[stratum]):
            first = -(-(turn * parts + 1) * num_turns // steps)
            last = ((turn + 1) * parts - 1) * num_turns // steps
            places.append((first, last, tie, stratum))
    places.sort(reverse=True)
    waiting: list[tuple[int, int, int]] = []
    turns = np.empty(num_turns, dtype=np.int64)
    for place in range(1, num_turns + 1):
        while places and places[-1][0] <= place:
            heapq.heappush(waiting, places.pop()[1:])
        turns[place - 1] = heapq.heappop(waiting)[2]
    return turns
