"""Which minibatch goes to which group: what is asked, and what no answer can beat.

Arrays end in _b for minibatches and _g for groups.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHAKE = 0.1  # deviation of the log of a shaken load


@dataclass(frozen=True)
class Problem:
    """Deal minibatches into groups that each hold a given weight, their loads as equal as can be.

    The weight is 1 a minibatch (groups of K minibatches) or its prompts (groups of P prompts). A
    smaller last group owes a smaller share of the load, so loads are compared with each group's
    target, its share of the total by weight: the aim is the smallest largest load_g / target_g.
    """

    load_b: Floats  # seconds or tokens
    weight_b: Ints
    capacity_g: Ints  # weight that each group is to hold; sums to the total weight

    def shaken(self, rng: np.random.Generator) -> "Problem":
        """The problem with each load off by a tenth or so: another start for another epoch."""
        factor_b = np.exp(SHAKE * rng.standard_normal(len(self.load_b)))
        return Problem(self.load_b * factor_b, self.weight_b, self.capacity_g)

    @cached_property
    def target_g(self) -> Floats:
        """Each group's share of the load; 1 for all where there is no load at all."""
        total = self.load_b.sum()
        if not total:
            return np.ones(len(self.capacity_g))
        return np.asarray(total * self.capacity_g / self.capacity_g.sum())

    def loads(self, group_b: Ints) -> Floats:
        """Load of each group under an assignment."""
        return np.bincount(group_b, self.load_b, len(self.capacity_g)).astype(np.float64)

    def excess(self, group_b: Ints) -> Ints:
        """Weight of each group beyond its capacity; all zero where the assignment is legal."""
        held_g = np.bincount(group_b, self.weight_b, len(self.capacity_g))
        return held_g.astype(np.int64) - self.capacity_g

    def imbalance(self, group_b: Ints) -> float:
        """Largest load over its target, less 1: 0 is perfect balance."""
        if not self.load_b.any():
            return 0.0
        return max(0.0, float((self.loads(group_b) / self.target_g).max() - 1))

    def bound(self) -> float:
        """A value that no assignment's imbalance can be below.

        The mean gives 0. With unit weights two more: of the jG + 1 heaviest minibatches some
        group of the G holds j + 1, the lightest of which are ranks jG - j + 1 to jG + 1, and
        fills up with the lightest of all; j = 0 is the heaviest minibatch alone. With prompt
        weights: the heaviest minibatch, filled up at the lowest load per prompt.
        """
        if not self.load_b.any():
            return 0.0
        if np.all(self.weight_b == 1):
            best = min(self._pigeonhole_bounds())
        else:
            heaviest = int(np.argmax(self.load_b))
            missing_g = self.capacity_g - self.weight_b[heaviest]
            fill = (self.load_b / self.weight_b).min()
            fits = missing_g >= 0
            ratio_g = (self.load_b[heaviest] + fill * missing_g[fits]) / self.target_g[fits]
            best = ratio_g.min() if fits.any() else 1.0
        return max(0.0, float(best) - 1)

    def gap(self, group_b: Ints, bound: float) -> float:
        """How far an assignment's largest ratio is above a bound on it; 0 is optimal."""
        return max(0.0, (1 + self.imbalance(group_b)) / (1 + bound) - 1)

    def _pigeonhole_bounds(self) -> list[float]:
        """For each size of group, the best bound should the crowded group have that size."""
        descending = np.sort(self.load_b)[::-1]
        lightest = np.concatenate(([0.0], np.cumsum(descending[::-1])))
        heaviest = np.concatenate(([0.0], np.cumsum(descending)))
        num_groups, bounds = len(self.capacity_g), []
        largest = int(self.capacity_g.max())
        j = np.arange(min(largest, (len(descending) - 1) // num_groups + 1))
        last = j * num_groups + 1
        crowd = heaviest[last] - heaviest[last - j - 1]
        for size in np.unique(self.capacity_g):
            target = self.target_g[self.capacity_g == size][0]
            is_possible = j + 1 <= size
            filled = crowd[is_possible] + lightest[size - 1 - j[is_possible]]
            bounds.append(float((filled / target).max()))
        return bounds
