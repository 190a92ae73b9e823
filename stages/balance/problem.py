"""Which minibatch goes to which group: what is asked, and what no answer can beat.

Arrays end in _b for minibatches and _g for groups.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST_SPREAD = 1024  # of the heaviest minibatches, looked at for a bound
SHAKE = 0.1  # deviation of the log of a shaken load


@dataclass(frozen=True)
class Problem:
    """Deal minibatches into groups that each hold a given weight, their loads as equal as can be.

    The weight is 1 a minibatch (groups of K minibatches) or its prompts (groups of P prompts). A
    smaller last group owes a smaller share of the load, so loads are compared with each group's
    share of the total by weight: the aim is the smallest largest load_g / share_g.

    Where the remainder is not judged, only the full groups are, against their own mean: a remainder
    of a few prompts still holds a whole longest response, far above its share, and trainers that
    cut fixed batches drop it.
    """

    load_b: Floats  # seconds or tokens
    weight_b: Ints
    capacity_g: Ints  # weight that each group is to hold; sums to the total weight
    judges_remainder: bool = True

    def shaken(self, rng: np.random.Generator) -> "Problem":
        """The problem with each load off by a tenth or so: another start for another epoch."""
        factor_b = np.exp(SHAKE * rng.standard_normal(len(self.load_b)))
        return replace(self, load_b=self.load_b * factor_b)

    @cached_property
    def is_judged_g(self) -> Bools:
        """The groups whose loads are to be equal."""
        return np.asarray((self.capacity_g == self.capacity_g[0]) | self.judges_remainder)

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

    def shares(self, load_g: Floats) -> Floats:
        """What each group's load should be, given the loads as they are."""
        if self.is_judged_g.all() or not load_g[self.is_judged_g].any():
            return self.target_g
        return np.full(len(load_g), load_g[self.is_judged_g].mean())

    def imbalance(self, group_b: Ints) -> float:
        """Largest load of a judged group over its share, less 1: 0 is perfect balance."""
        load_g = self.loads(group_b)
        if not load_g[self.is_judged_g].any():
            return 0.0
        return max(0.0, float((load_g / self.shares(load_g))[self.is_judged_g].max() - 1))

    def bound(self) -> float:
        """A value that no assignment's imbalance can be below.

        The mean gives 0. With unit weights two more, in the methods below. With prompt weights:
        the heaviest minibatch, filled up at the lowest load per prompt.
        """
        if not self.load_b.any():
            return 0.0
        if np.all(self.weight_b == 1) and self.is_judged_g.all():
            return max(0.0, min(self._pigeonhole_bounds()) - 1, self._spread_bound() - 1)
        heaviest = int(np.argmax(self.load_b))
        missing_g = self.capacity_g - self.weight_b[heaviest]
        if (missing_g[~self.is_judged_g] >= 0).any():
            return 0.0  # where it fits the remainder, it is not judged
        fits = missing_g >= 0
        fill = (self.load_b / self.weight_b).min()
        ratio_g = (self.load_b[heaviest] + fill * missing_g[fits]) / self.largest_share_g[fits]
        return max(0.0, float(ratio_g.min(initial=np.inf) - 1)) if fits.any() else 0.0

    @property
    def largest_share_g(self) -> Floats:
        """No assignment makes a judged group's share larger."""
        if self.is_judged_g.all():
            return self.target_g
        return np.full(len(self.capacity_g), self.load_b.sum() / self.is_judged_g.sum())

    def gap(self, group_b: Ints, bound: float) -> float:
        """How far an assignment's largest ratio is above a bound on it; 0 is optimal."""
        return max(0.0, (1 + self.imbalance(group_b)) / (1 + bound) - 1)

    def _pigeonhole_bounds(self) -> list[float]:
        """For each size of group, the best bound should the crowded group have that size.

        Of the jG + 1 heaviest minibatches some group of the G holds j + 1, the lightest of which
        are ranks jG - j + 1 to jG + 1, and fills up with the lightest of all.
        """
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

    def _spread_bound(self) -> float:
        """The m heaviest minibatches lie in k <= m groups, which fill up with the lightest of all.

        One of these groups has at least their mean ratio: the least of it over k, the best over m.
        With a remainder, which may be one of the k, it counts as a full group and as itself.
        """
        descending = np.sort(self.load_b)[::-1]
        lightest = np.concatenate(([0.0], np.cumsum(descending[::-1])))
        heaviest = np.cumsum(descending)
        num_groups, size = len(self.capacity_g), int(self.capacity_g[0])
        missing = size - int(self.capacity_g[-1])
        best = 0.0
        for m in range(1, min(num_groups, MOST_SPREAD) + 1):
            full_k = size * np.arange(-(-m // size), m + 1)
            held = np.concatenate((full_k, full_k - missing)) if missing else full_k
            held = held[(held >= m) & (held <= len(descending))]
            share = heaviest[-1] * held / len(descending)
            best = max(best, ((heaviest[m - 1] + lightest[held - m]) / share).min(initial=np.inf))
        return float(best)
