"""Cut a minibatch where no exchange of whole ones makes the heaviest group lighter.

With few minibatches a group, and exactly so many prompts, the prompts of whole minibatches rarely
add up. So two groups exchange minibatches of unequal prompts, and a part of a third makes up for
the difference: of a short one, since both its parts take as long as its longest.
"""

from typing import NamedTuple

import numpy as np
import polars as pl

from stages.balance.assign import PAIRS_UP_TO, Subsets, groups_of, members_of
from stages.balance.problem import Floats, Ints, Problem
from stages.balance.split import Cutter, parts_of

WORTH_A_CUT = 1e-3  # excess of the heaviest group over the mean above which minibatches are cut
LEAST_GAIN = 1e-3  # what the heavier of two groups must lose by it, relative to the mean
PARTNERS = 8  # groups tried as partners of the heaviest, lightest first
CANDIDATES = 3  # minibatches of a group that may be cut, those first that cost least
CUTS_A_GROUP = 2  # at most, on average


class Cut(NamedTuple):
    """Group g gives some to h and takes others; a part of b, which one of them holds, evens out."""

    h: int
    given: Ints
    taken: Ints
    b: int
    num_prompts: int  # that go to the other group
    is_from_g: bool
    worse: float  # load of the heavier of the two groups after it


class Pieces:
    """Minibatches and parts of them: prompts and load, which is fixed + rate x prompts."""

    def __init__(self, minibatches: pl.DataFrame, problem: Problem, load: str, cutter: Cutter):
        parts = parts_of(minibatches)
        single = cutter.take(minibatches, [part.cut(1)[0] for part in parts])
        self.parts = parts
        self.most = len(parts) + CUTS_A_GROUP * len(problem.capacity_g)
        self.weight_b, self.load_b, self.fixed_b, self.rate_b = (
            np.zeros(self.most, dtype) for dtype in (np.int64, float, float, float)
        )
        num, size_b = len(parts), problem.weight_b
        rate_b = (problem.load_b - single[load].to_numpy()) / np.maximum(size_b - 1, 1)
        self.weight_b[:num], self.load_b[:num], self.rate_b[:num] = size_b, problem.load_b, rate_b
        self.fixed_b[:num] = problem.load_b - rate_b * size_b

    def cut(self, b: int, num_prompts: int) -> int:
        """Take so many prompts off b; the number of the new piece."""
        new = len(self.parts)
        shorter, self.parts[b] = self.parts[b].cut(num_prompts)
        self.parts.append(shorter)
        self.fixed_b[new], self.rate_b[new] = self.fixed_b[b], self.rate_b[b]
        for piece in (b, new):
            self.weight_b[piece] = size = self.parts[piece].num_prompts
            self.load_b[piece] = self.fixed_b[piece] + self.rate_b[piece] * size
        return new


def cut_to_balance(
    minibatches: pl.DataFrame, problem: Problem, group_b: Ints, load: str, cutter: Cutter
) -> tuple[pl.DataFrame, Ints]:
    """Bring the heaviest judged groups nearer the mean, a cut at a time.

    Args:
        minibatches: The table.
        problem: Of the table, weights in prompts, held exactly by `group_b`.
        group_b: Group of each minibatch.
        load: Column that `problem` balances.
        cutter: Of the table.

    Returns:
        The minibatches, the new ones last, and the group of each.
    """
    pieces = Pieces(minibatches, problem, load, cutter)
    members = members_of(problem, group_b)
    load_g = problem.loads(group_b)
    is_open = problem.is_judged_g.copy()
    while len(pieces.parts) < pieces.most:
        mean = load_g[problem.is_judged_g].mean()
        g = int(np.argmax(np.where(is_open, load_g, -np.inf)))
        if not is_open[g] or load_g[g] <= mean * (1 + WORTH_A_CUT):
            break
        lightest = np.argsort(np.where(problem.is_judged_g, load_g, np.inf), kind="stable")
        move = _best_cut(pieces, members, load_g, g, lightest[:PARTNERS])
        if move is None or move.worse > load_g[g] - LEAST_GAIN * mean:
            is_open[g] = False
            continue
        _carry_out(pieces, members, g, move)
        for group in (g, move.h):
            load_g[group] = pieces.load_b[members[group]].sum()
    return cutter.take(minibatches, pieces.parts), groups_of(members, len(pieces.parts))


def _best_cut(
    pieces: Pieces, members: list[Ints], load_g: Floats, g: int, partners: Ints
) -> Cut | None:
    """The exchange with one of the partners that leaves the heavier of the two lightest."""
    best = None
    for h in partners.tolist():
        if h == g or max(len(members[g]), len(members[h])) > PAIRS_UP_TO:
            continue
        given, taken = (Subsets(members[group], with_empty=True) for group in (g, h))
        surplus = np.subtract.outer(given.sums(pieces.weight_b), taken.sums(pieces.weight_b))
        shift = np.subtract.outer(given.sums(pieces.load_b), taken.sums(pieces.load_b))
        for is_from_g, subsets in ((True, given), (False, taken)):
            num_prompts = -surplus if is_from_g else surplus
            cheapest = np.argsort(pieces.fixed_b[subsets.members], kind="stable")[:CANDIDATES]
            for k, stays in zip(cheapest, ~subsets.holds().T[cheapest], strict=True):
                b = int(subsets.members[k])
                is_legal = (num_prompts > 0) & (num_prompts < pieces.weight_b[b])
                is_legal &= stays[:, None] if is_from_g else stays[None, :]
                moved = pieces.rate_b[b] * num_prompts
                off, on = -moved, pieces.fixed_b[b] + moved
                worse = np.maximum(
                    load_g[g] - shift + (off if is_from_g else on),
                    load_g[h] + shift + (on if is_from_g else off),
                )
                worse = np.where(is_legal, worse, np.inf)
                i, j = np.unravel_index(int(np.argmin(worse)), worse.shape)
                if worse[i, j] < (best.worse if best else np.inf):
                    best = Cut(
                        h, given[int(i)], taken[int(j)], b,
                        int(num_prompts[i, j]), is_from_g, float(worse[i, j]),
                    )  # fmt: skip
    return best


def _carry_out(pieces: Pieces, members: list[Ints], g: int, move: Cut) -> None:
    new = pieces.cut(move.b, move.num_prompts)
    to_g, to_h = (
        (move.taken, [*move.given, new]) if move.is_from_g else ([*move.taken, new], move.given)
    )
    g_keeps = np.setdiff1d(members[g], move.given)
    h_keeps = np.setdiff1d(members[move.h], move.taken)
    members[g] = np.concatenate((g_keeps, np.asarray(to_g, dtype=np.int64)))
    members[move.h] = np.concatenate((h_keeps, np.asarray(to_h, dtype=np.int64)))
