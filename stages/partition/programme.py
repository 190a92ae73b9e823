"""Where to cut a sorted list of prompts into minibatches: the exact dynamic programme.

best[j] = min over sizes s in [lo, hi] of best[j - s] + cost(j - s, j): O(N (hi - lo + 1)).

Maximising utilisation or minimising padding alone prefers the smallest legal minibatches, so both
hold the number of minibatches m fixed. Two ways to do that:

- layers: best[k, j] over k minibatches, exact for any cost, O(N^2) time. For costs that are not
  Monge (below) or whose sizes are limited by more than lo and hi, to N = EXACT_LIMIT.
- a price per minibatch, found by bisection so that m minibatches are cheapest. The cheapest
  partition at a price with count m is the best with m. Where prices jump over m, two partitions
  with fewer and with more minibatches are spliced into one with m (below). The dual bound, the
  best total at the price less the price paid for m, tells how far that can be from the best.

Padding's cost (j - i) x longest is Monge on an ascending list (for i <= i' <= j <= j', cost(i,j) +
cost(i',j') <= cost(i,j') + cost(i',j)), so the best total is convex in m and the splice of two
partitions that are cheapest at the same price is cheapest too (Aggarwal, Schieber, Tokuyama,
"Finding a minimum-weight k-link path in graphs with the concave Monge property", 1994). Size
limits keep that: where (i,j') and (i',j) have legal sizes, (i,j) and (i',j') lie between. So the
price method is exact for padding, up to rounding. Utilisation is not Monge: its gap is reported.

Where some minibatches are too much for memory, sizes are limited further: at each end by the most
prompts that fit, at each start by the fewest that are wanted (`memory.py`). Part of what fits
fits, and the splice only grows a minibatch of `more` at its end, so it stays legal.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.partition.recurrences import (
    STEP_COST,
    TABULATED,
    UTILIZATION,
    layers,
    shortest_path,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_LIMIT = 2_000  # prompts up to which costs that are not Monge are solved by layers


@dataclass(frozen=True)
class Cost:
    """What a minibatch of prompts i to j - 1 of the sorted list costs.

    With size = j - i and longest = key[j - 1]:
    UTILIZATION: -(sum of tokens) / (size x longest), so that less is better; -1 where longest is 0.
    STEP_COST: longest x (fixed + per_prompt x size).
    TABULATED: table[j, size - smallest].

    Only minibatches of least_p[i] to most_p[j - 1] prompts are candidates, where these are given.
    """

    kind: int
    key_p: Floats  # ascending: the length that the minibatch waits for
    tokens_p: Floats  # expected tokens of each prompt, for utilisation
    fixed: float = 0.0
    per_prompt: float = 1.0
    table: Floats = field(default_factory=lambda: np.zeros((1, 1)))  # end of a minibatch x size
    smallest: int = 1  # size of the table's first column
    least_p: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    most_p: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def utilization(cls, key_p: Floats, tokens_p: Floats) -> "Cost":
        """Mean over minibatches of sum / (size x longest), negated."""
        return cls(UTILIZATION, key_p, tokens_p)

    @classmethod
    def padding(cls, key_p: Floats) -> "Cost":
        """Sum over minibatches of size x longest, the slot-steps paid for."""
        assert (np.diff(key_p) >= 0).all(), "the last prompt of a minibatch is its longest"
        return cls(STEP_COST, key_p, key_p)

    @classmethod
    def seconds(cls, key_p: Floats, step_seconds: float, prompt_seconds: float) -> "Cost":
        """Sum over minibatches of longest x (step_seconds + prompt_seconds x size)."""
        return cls(STEP_COST, key_p, key_p, step_seconds, prompt_seconds)

    @classmethod
    def tabulated(cls, key_p: Floats, table: Floats, smallest: int) -> "Cost":
        """Sum over minibatches of table[end, size - smallest]."""
        return cls(TABULATED, key_p, key_p, table=table, smallest=smallest)

    def total(self, ends: Ints) -> float:
        """Cost of a partition given by the ends of its minibatches (the last is N)."""
        starts = np.concatenate(([0], ends[:-1]))
        sizes, longest = ends - starts, self.key_p[ends - 1]
        if self.kind == TABULATED:
            return float(np.sum(self.table[ends, sizes - self.smallest]))
        if self.kind == STEP_COST:
            return float(np.sum(longest * (self.fixed + self.per_prompt * sizes)))
        paid = sizes * longest
        sums = np.concatenate(([0.0], np.cumsum(self.tokens_p)))
        useful = sums[ends] - sums[starts]
        return -float(np.sum(np.divide(useful, paid, out=np.ones_like(paid), where=paid > 0)))


@dataclass(frozen=True)
class Partition:
    """Ends of the minibatches in the sorted list, the total cost, and a bound it can't beat."""

    ends: Ints
    total: float
    bound: float

    @property
    def gap(self) -> float:
        """(total - bound) / |bound|: 0 is optimal, up to rounding."""
        if self.total <= self.bound:
            return 0.0
        return (self.total - self.bound) / abs(self.bound) if self.bound else np.inf


def cut_freely(cost: Cost, lo: int, hi: int) -> Partition | None:
    """The cheapest partition with sizes in [lo, hi], of any number of minibatches; None if none."""
    return _cheapest_at_price(cost, lo, hi, 0.0, fewest=True)


def feasible_counts(least_p: Ints, most_p: Ints) -> tuple[int, int] | None:
    """Fewest and most minibatches of a partition within such limits; None if there is none.

    Every count between is feasible too: a splice has it.
    """
    free = Cost(STEP_COST, np.zeros(len(most_p)), np.empty(0), least_p=least_p, most_p=most_p)
    lo, hi = int(least_p.min()), int(most_p.max())
    fewest = _cheapest_at_price(free, lo, hi, 1.0, fewest=True)
    most = _cheapest_at_price(free, lo, hi, -1.0, fewest=False)
    return (len(fewest.ends), len(most.ends)) if fewest and most else None


def cut_into(cost: Cost, lo: int, hi: int, count: int) -> Partition:
    """The cheapest partition into exactly `count` minibatches with sizes in [lo, hi].

    Needs count x lo <= N <= count x hi, and with further limits a count of `feasible_counts`.
    """
    num_prompts = len(cost.key_p)
    assert count * lo <= num_prompts <= count * hi, "no partition has this count"
    is_monge = cost.kind == STEP_COST and not len(cost.most_p)
    if not is_monge and num_prompts <= EXACT_LIMIT:
        ends = layers(*_arguments(cost), lo, hi, count)
        total = cost.total(ends)
        return Partition(ends, total, total)
    return _cut_by_price(cost, lo, hi, count)


def _cut_by_price(cost: Cost, lo: int, hi: int, count: int) -> Partition:
    """Bisect the price of a minibatch until `count` is cheapest, or splice at the jump."""

    def cheapest(price: float, fewest: bool = True) -> Partition:
        found = _cheapest_at_price(cost, lo, hi, price, fewest)
        assert found is not None, "a feasible count has a partition"
        return found

    scale = abs(cost.total(_even_ends(len(cost.key_p), count))) / count or 1.0
    low, high = -scale, scale
    fewer = cheapest(high)
    while len(fewer.ends) > count:
        high *= 4
        fewer = cheapest(high)
    more = cheapest(low, fewest=False)
    while len(more.ends) < count:
        low *= 4
        more = cheapest(low, fewest=False)
    bound = max(
        p.total + price * (len(p.ends) - count) for p, price in ((fewer, high), (more, low))
    )
    while len(fewer.ends) != count and len(more.ends) != count:
        price = (low + high) / 2
        if not low < price < high:
            break
        middle = cheapest(price)
        bound = max(bound, middle.total + price * (len(middle.ends) - count))
        if len(middle.ends) <= count:
            fewer, high = middle, price
        else:
            more, low = middle, price
    exact = next((p for p in (fewer, more) if len(p.ends) == count), None)
    ends = exact.ends if exact else _splice(cost, fewer.ends, more.ends, count)
    total = cost.total(ends)
    return Partition(ends, total, min(bound, total))


def _splice(cost: Cost, fewer: Ints, more: Ints, count: int) -> Ints:
    """Join the start of `more` to the end of `fewer` so that `count` minibatches come out.

    With a and b the cuts of fewer and more (0 first) and d = count - len(fewer), b[j + d] - a[j]
    falls from above 0 at j = 0 to below 0 at the end; where minibatch j of fewer encloses
    minibatch j + d of more, b up to j + d and a from j + 1 on make a partition with legal sizes.
    """
    a, b = np.concatenate(([0], fewer)), np.concatenate(([0], more))
    shift = count - len(fewer)
    shifted = b[shift : shift + len(a)]
    enclosed = np.flatnonzero((a[:-1] <= shifted[:-1]) & (shifted[1:] <= a[1:]))
    spliced = (np.concatenate((b[1 : j + shift + 1], a[j + 1 :])) for j in enclosed)
    return min(spliced, key=cost.total)


def _even_ends(num_prompts: int, count: int) -> Ints:
    """Ends of `count` minibatches whose sizes differ by at most one."""
    return (np.arange(1, count + 1) * num_prompts) // count


def _arguments(
    cost: Cost,
) -> tuple[int, Floats, Floats, float, float, Floats, int, Ints, Ints]:
    sums = np.concatenate(([0.0], np.cumsum(cost.tokens_p)))
    return (
        cost.kind, cost.key_p, sums, cost.fixed, cost.per_prompt, cost.table, cost.smallest,
        cost.least_p, cost.most_p,
    )  # fmt: skip


def _cheapest_at_price(
    cost: Cost, lo: int, hi: int, price: float, fewest: bool
) -> Partition | None:
    ends = shortest_path(*_arguments(cost), lo, hi, price, fewest)
    if not len(ends):
        return None
    total = cost.total(ends)
    return Partition(ends, total, total)
