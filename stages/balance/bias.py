"""How far is what a batch group holds from the whole, and how far would random prompts be?

A batch whose lengths or tasks differ from the whole biases the gradient. Prompts dealt at random,
as a shuffling trainer does, differ by chance: that is the measure to judge by.

Of lengths a minibatches table tells one a minibatch, the mean of its responses, which stands here
for each of its prompts.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stages.balance.problem import Bools, Floats, Ints

RANDOM_GROUPS = 200  # drawn to tell what chance gives
RANDOM_PROMPTS = 2_000_000  # drawn at most, as long as there are MIN_GROUPS
MIN_GROUPS = 20


class Bias(NamedTuple):
    """Distances from the whole: of the groups, and of as many prompts drawn at random."""

    largest: float
    mean: float
    random_high: float  # 95th percentile
    random_mean: float

    @classmethod
    def of(cls, distance_g: Floats, random_r: Floats) -> "Bias":
        """Sum up the distances of groups and of random groups."""
        high = float(np.quantile(random_r, 0.95))
        return cls(float(distance_g.max()), float(distance_g.mean()), high, float(random_r.mean()))


def length_bias(
    tokens_b: Floats, size_b: Ints, group_b: Ints, is_judged_g: Bools, seed: int
) -> Bias:
    """Wasserstein distance of each group's lengths from the whole's, relative to the mean length.

    So 0.1: the lengths of a group must be moved by a tenth of the mean, on average over its
    prompts, to become those of the whole.

    Args:
        tokens_b: Mean length of each minibatch's responses [tokens].
        size_b: Prompts of each minibatch.
        group_b: Group of each minibatch.
        is_judged_g: Groups to measure.
        seed: Of the random groups.
    """
    line = _Line(tokens_b, size_b)
    if not line.mean:
        return Bias(0.0, 0.0, 0.0, 0.0)
    distance_g = line.distances(line.place_b, size_b, group_b, len(is_judged_g))[is_judged_g]

    def draw(rng: np.random.Generator, size: int, num_groups: int) -> Floats:
        ends = np.cumsum(size_b)
        drawn = [rng.choice(ends[-1], size, replace=False) for _ in range(num_groups)]
        places = line.place_b[np.searchsorted(ends, np.concatenate(drawn), side="right")]
        ones = np.ones(len(places), dtype=np.int64)
        return line.distances(places, ones, np.repeat(np.arange(num_groups), size), num_groups)

    random_r = _by_chance(draw, size_b, group_b, is_judged_g, seed)
    return Bias.of(distance_g / line.mean, random_r / line.mean)


def stratum_bias(count_bs: Ints, group_b: Ints, is_judged_g: Bools, seed: int) -> Bias:
    """Total variation distance of each group's strata from the whole's.

    So 0.1: a tenth of a group's prompts must be exchanged for it to hold the strata as the whole
    does.

    Args:
        count_bs: Prompts of each minibatch in each stratum.
        group_b: Group of each minibatch.
        is_judged_g: Groups to measure.
        seed: Of the random groups.
    """
    count_gs = np.zeros((len(is_judged_g), count_bs.shape[1]), dtype=np.int64)
    np.add.at(count_gs, group_b, count_bs)
    total_s = count_bs.sum(axis=0)

    def distances(count_gs: Ints) -> Floats:
        share_gs = count_gs / count_gs.sum(axis=1, keepdims=True)
        return np.asarray(np.abs(share_gs - total_s / total_s.sum()).sum(axis=1) / 2)

    def draw(rng: np.random.Generator, size: int, num_groups: int) -> Floats:
        return distances(rng.multivariate_hypergeometric(total_s, size, num_groups, "marginals"))

    size_b = count_bs.sum(axis=1)
    random_r = _by_chance(draw, size_b, group_b, is_judged_g, seed)
    return Bias.of(distances(count_gs[is_judged_g]), random_r)


def _by_chance(
    draw: Callable[[np.random.Generator, int, int], Floats],
    size_b: Ints,
    group_b: Ints,
    is_judged_g: Bools,
    seed: int,
) -> Floats:
    """Distances of random groups with as many prompts as the judged ones have on average."""
    size_g = np.bincount(group_b, size_b, len(is_judged_g))[is_judged_g]
    size = round(float(size_g.mean()))
    num_groups = min(RANDOM_GROUPS, max(MIN_GROUPS, RANDOM_PROMPTS // size))
    return draw(np.random.default_rng(seed), size, num_groups)


class _Line:
    """All lengths in ascending order, and the area under their distribution function."""

    def __init__(self, tokens_b: Floats, size_b: Ints) -> None:
        order_b = np.argsort(tokens_b, kind="stable")
        self.place_b = np.empty(len(order_b), dtype=np.int64)
        self.place_b[order_b] = np.arange(len(order_b))
        self.tokens_i = tokens_b[order_b]
        self.share_i = np.cumsum(size_b[order_b]) / size_b.sum()  # of prompts up to place i
        area = np.cumsum(self.share_i[:-1] * np.diff(self.tokens_i))
        self.area_i = np.concatenate(([0.0], area))
        self.mean = float(tokens_b @ size_b / size_b.sum())

    def distances(self, place_r: Ints, size_r: Ints, group_r: Ints, num_groups: int) -> Floats:
        """Area between the distribution functions of each group and the whole [tokens].

        Rows are lengths by their place in the line, `size_r` prompts each. Between two of its
        lengths a group's function is level, and crosses the whole's, which rises, once.
        """
        order = np.lexsort((place_r, group_r))
        place_r, size_r, group_r = place_r[order], size_r[order], group_r[order]
        is_first = np.diff(group_r, prepend=-1) != 0
        starts, segment_r = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        held_r = np.cumsum(size_r)
        held_r -= (held_r - size_r)[starts][segment_r]
        level_r = held_r / np.add.reduceat(size_r, starts)[segment_r]
        last = np.append(starts[1:] - 1, len(order) - 1)
        right = np.append(place_r[1:], 0)
        right[last] = len(self.tokens_i) - 1
        area_r = self._between(level_r, place_r, right)
        before_r = np.where(is_first, self.area_i[place_r], 0.0)
        return np.asarray(np.bincount(group_r, before_r + area_r, num_groups), dtype=np.float64)

    def _between(self, level: Floats, left: Ints, right: Ints) -> Floats:
        """Area between a level and the whole's function, from place `left` to `right`."""
        cross = np.clip(np.searchsorted(self.share_i, level), left, right)
        x, area = self.tokens_i, self.area_i
        below = level * (x[cross] - x[left]) - (area[cross] - area[left])
        above = (area[right] - area[cross]) - level * (x[right] - x[cross])
        return np.asarray(below + above)
