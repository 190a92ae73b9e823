"""Deal minibatches into groups: longest first, then exchanges between groups.

Longest first (Graham's LPT, here with the cardinality or prompts of each group held) starts near
the best; exchanges of one or two minibatches of equal weight between the heaviest group and a
lighter one take it to within a hair of the bound. Small problems go on to CP-SAT (`solver.py`).
"""

import heapq
from functools import cache
from typing import NamedTuple

import numpy as np

from stages.balance.problem import Bools, Floats, Ints, Problem

PARTNERS = 48  # groups tried as partners of a heavy one, lightest first
MOST_PARTNERS = 512  # the same for the heaviest
PAIRS_UP_TO = 16  # members up to which two are exchanged at once
WORTH_ASKING_ALL = 1e-4  # excess of the heaviest group over its bound at which everyone is asked
WORTH_ASKING_MOST = 5e-4  # the same, at which most groups are tried for pairs too
GOOD_ENOUGH = 1e-5  # excess of the heaviest group over the mean at which exchanging stops
TOLERANCE = 1e-12  # improvement of a ratio below which an exchange is noise


class Move(NamedTuple):
    """Group g gives some minibatches to group h and takes others from it."""

    h: int
    given: Ints
    taken: Ints


def assign(problem: Problem, rng: np.random.Generator | None = None) -> Ints:
    """Group of each minibatch: weights as close to the capacities as found, loads near equal.

    With `rng` the start is drawn, so that each epoch gets another answer, as good as the first.
    """
    group_b = longest_first(problem if rng is None else problem.shaken(rng))
    group_b = repair_weights(problem, group_b)
    return exchange(problem, group_b)


def longest_first(problem: Problem) -> Ints:
    """Give each minibatch, heaviest first, to the group with the least load for its target.

    Among the groups with room for it; where none has room, to the one with the most.
    """
    room_g = problem.capacity_g.copy()
    group_b = np.empty(len(problem.load_b), dtype=np.int64)
    heap = [(0.0, g) for g in range(len(room_g))]
    lightest = problem.weight_b.min()
    for b in np.lexsort((np.arange(len(group_b)), -problem.load_b)):
        weight, passed = problem.weight_b[b], []
        while heap and room_g[heap[0][1]] < weight:
            entry = heapq.heappop(heap)
            if room_g[entry[1]] >= lightest:
                passed.append(entry)
        load, g = heap[0] if heap else (0.0, int(np.argmax(room_g)))
        group_b[b] = g
        room_g[g] -= weight
        if heap:
            heapq.heapreplace(heap, (load + problem.load_b[b] / problem.target_g[g], g))
        for entry in passed:
            heapq.heappush(heap, entry)
    return group_b


def repair_weights(problem: Problem, group_b: Ints) -> Ints:
    """Exchange up to two minibatches at a time while that brings groups nearer their capacity."""
    excess_g = problem.excess(group_b)
    members = members_of(problem, group_b)
    has_moved = True
    while has_moved and excess_g.any():
        has_moved = False
        for g in np.argsort(-excess_g, kind="stable").tolist():
            while excess_g[g] > 0 and (move := _best_weight_move(problem, members, excess_g, g)):
                shift = problem.weight_b[move.given].sum() - problem.weight_b[move.taken].sum()
                excess_g[g] -= shift
                excess_g[move.h] += shift
                swap(members, g, move)
                has_moved = True
    return groups_of(members, len(group_b))


def _best_weight_move(problem: Problem, members: list[Ints], excess_g: Ints, g: int) -> Move | None:
    """What g best gives to and takes from a group with room, if that helps the two together."""
    best, best_gain = None, 0
    given = Subsets(members[g], with_empty=True)
    given_w = given.sums(problem.weight_b)
    lacking = np.flatnonzero(excess_g < 0)
    for h in lacking[np.argsort(excess_g[lacking], kind="stable")][:PARTNERS].tolist():
        taken = Subsets(members[h], with_empty=True)
        shift = given_w[:, None] - taken.sums(problem.weight_b)[None, :]
        before = abs(excess_g[g]) + abs(excess_g[h])
        gain = before - abs(excess_g[g] - shift) - abs(excess_g[h] + shift)
        i, k = np.unravel_index(int(np.argmax(gain)), gain.shape)
        if gain[i, k] > best_gain:
            best, best_gain = Move(h, given[int(i)], taken[int(k)]), int(gain[i, k])
            if best_gain == before:
                break
    return best


def exchange(problem: Problem, group_b: Ints) -> Ints:
    """Exchange minibatches of equal weight between the heaviest group and lighter ones.

    A group that finds no partner with which the larger of their two ratios falls is left as it
    is, and the next heaviest tried: one giant must not keep the others from being balanced.
    """
    members = members_of(problem, group_b)
    load_g = problem.loads(group_b)
    share_g = problem.shares(load_g)  # stays: what judged groups exchange, they hold together
    group_b, is_open = group_b.copy(), problem.is_judged_g.copy()
    ratio_g = np.where(is_open, load_g / share_g, np.inf)  # at infinity: nobody's partner
    least = (1 + problem.bound()) * (1 + WORTH_ASKING_ALL)
    far = (1 + problem.bound()) * (1 + WORTH_ASKING_MOST)
    has_moved = False
    while True:
        g = int(np.argmax(np.where(is_open, ratio_g, -np.inf)))
        if not is_open[g] or ratio_g[g] <= ratio_g[is_open].mean() * (1 + GOOD_ENOUGH):
            heaviest = int(np.argmax(np.where(problem.is_judged_g, ratio_g, -np.inf)))
            if is_open[heaviest] or not has_moved or ratio_g[heaviest] <= least:
                return group_b
            # It found no partner, but others have grown lighter since.
            is_open[heaviest], has_moved = True, False
            continue
        move = _best_load_move(problem, members, load_g, share_g, g, PARTNERS)
        if move is None and ratio_g[g] > least and ratio_g[g] >= ratio_g[problem.is_judged_g].max():
            # The heaviest of all decides the balance: it is worth asking everyone.
            move = _best_swap_with_anyone(problem, members[g], group_b, load_g, share_g)
            if move is None and ratio_g[g] > far:
                move = _best_load_move(problem, members, load_g, share_g, g, MOST_PARTNERS)
        if move is None:
            is_open[g] = False
            continue
        swap(members, g, move)
        group_b[move.given], group_b[move.taken], has_moved = move.h, g, True
        for group in (g, move.h):
            load_g[group] = problem.load_b[members[group]].sum()
            ratio_g[group] = load_g[group] / share_g[group]


def _best_load_move(
    problem: Problem,
    members: list[Ints],
    load_g: Floats,
    share_g: Floats,
    g: int,
    partners: int,
) -> Move | None:
    """The first partner, lightest first, with which g comes down, and the best exchange with it."""
    ratio_g = np.where(problem.is_judged_g, load_g / share_g, np.inf)
    partners = min(partners, len(ratio_g))
    lightest = np.argpartition(ratio_g, partners - 1)[:partners]
    given = Subsets(members[g])
    given_w, given_p = given.sums(problem.weight_b), given.sums(problem.load_b)
    for h in lightest[np.argsort(ratio_g[lightest], kind="stable")].tolist():
        if ratio_g[h] >= ratio_g[g]:
            break
        if not len(members[h]):
            continue
        taken = Subsets(members[h])
        shift = given_p[:, None] - taken.sums(problem.load_b)[None, :]
        worse = np.maximum((load_g[g] - shift) / share_g[g], (load_g[h] + shift) / share_g[h])
        is_legal = given_w[:, None] == taken.sums(problem.weight_b)[None, :]
        worse = np.where(is_legal, worse, np.inf)
        i, k = np.unravel_index(int(np.argmin(worse)), worse.shape)
        if worse[i, k] < ratio_g[g] - TOLERANCE:
            return Move(h, given[int(i)], taken[int(k)])
    return None


def _best_swap_with_anyone(
    problem: Problem, given: Ints, group_b: Ints, load_g: Floats, share_g: Floats
) -> Move | None:
    """The best exchange of one of these, all of a group, for one of any other group."""
    g = group_b[given[0]]
    is_partner_b = problem.is_judged_g[group_b] & (group_b != g)
    shift = problem.load_b[given][:, None] - problem.load_b
    worse = np.maximum(
        (load_g[g] - shift) / share_g[g], (load_g[group_b] + shift) / share_g[group_b]
    )
    is_legal = is_partner_b & (problem.weight_b[given][:, None] == problem.weight_b)
    worse = np.where(is_legal, worse, np.inf)
    i, b = np.unravel_index(int(np.argmin(worse)), worse.shape)
    if worse[i, b] >= load_g[g] / share_g[g] - TOLERANCE:
        return None
    return Move(int(group_b[b]), given[i : i + 1], np.array([b]))


class Subsets:
    """The subsets of a group that take part in an exchange: single members, and pairs while few.

    `[k]` are the members of the k-th.
    """

    def __init__(self, members: Ints, with_empty: bool = False) -> None:
        self.members = members
        self.num_empty = int(with_empty)
        self.first, self.second = _pairs(len(members) if len(members) <= PAIRS_UP_TO else 0)

    def sums(self, values_b: Floats | Ints) -> Floats | Ints:
        """The sum of a value over the members of each subset."""
        values = values_b[self.members]
        pairs = values[self.first] + values[self.second]
        return np.concatenate((np.zeros(self.num_empty, dtype=values.dtype), values, pairs))

    def holds(self) -> Bools:
        """Whether subset k holds the i-th member, [k, i]."""
        size, start = len(self.members), self.num_empty
        holds = np.zeros((start + size + len(self.first), size), dtype=np.bool_)
        holds[start + np.arange(size), np.arange(size)] = True
        pair = start + size + np.arange(len(self.first))
        holds[pair, self.first] = holds[pair, self.second] = True
        return holds

    def __getitem__(self, k: int) -> Ints:
        k -= self.num_empty
        if k < 0:
            return self.members[:0]
        if k < len(self.members):
            return self.members[k : k + 1]
        k -= len(self.members)
        return self.members[[self.first[k], self.second[k]]]


@cache
def _pairs(size: int) -> tuple[Ints, Ints]:
    first, second = np.triu_indices(size, k=1)
    return first, second


def members_of(problem: Problem, group_b: Ints) -> list[Ints]:
    """The minibatches of each group."""
    order = np.argsort(group_b, kind="stable")
    ends = np.cumsum(np.bincount(group_b, minlength=len(problem.capacity_g)))
    return np.split(order, ends[:-1])


def groups_of(members: list[Ints], num_minibatches: int) -> Ints:
    """The group of each minibatch."""
    group_b = np.empty(num_minibatches, dtype=np.int64)
    for g, inside in enumerate(members):
        group_b[inside] = g
    return group_b


def swap(members: list[Ints], g: int, move: Move) -> None:
    """Carry out a move of g's."""
    g_keeps = members[g][~np.isin(members[g], move.given)]
    h_keeps = members[move.h][~np.isin(members[move.h], move.taken)]
    members[g] = np.concatenate((g_keeps, move.taken))
    members[move.h] = np.concatenate((h_keeps, move.given))
