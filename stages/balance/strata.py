"""Does each group hold an even share of every stratum, such as a domain or a level of difficulty?

A stratum is a value of a column that holds a list with a value a prompt; null is one too. Loads
stay first: minibatches are exchanged between groups of equal load only while no group's load
exceeds the bound, or the largest load there was, by more than a tolerance.
"""

import numpy as np
import polars as pl

from stages.balance.assign import members_of
from stages.balance.problem import Ints, Problem
from stages.balance.split import columns_a_prompt
from stages.tables.errors import AspError

TOLERANCE = 0.01  # of the mean load: predictions are off by more
MOST_STRATA = 256
MOST_MEMBERS = 64  # minibatches of a group that are candidates in one round
ROUNDS = 64  # in each, every group meets another one
CELLS = 2**22  # numbers held at once in a round
LEAST_CHANGE = 1e-9  # squared prompts; less is noise


def check_strata(minibatches: pl.DataFrame, column: str, name: str) -> None:
    """Refuse a column of table `name` that tells no strata."""
    candidates = [c for c in columns_a_prompt(minibatches) if not c.startswith("prompt_")]
    if column not in candidates:
        is_there = column in minibatches.columns
        what = (
            f"column {column!r} holds no list with a value a prompt"
            if is_there
            else (f"no column {column!r}")
        )
        raise AspError(
            f"{name}: {what} (--stratify); columns that do: {', '.join(candidates) or 'none'}"
        )
    num_strata = minibatches[column].explode(empty_as_null=False).n_unique()
    if num_strata > MOST_STRATA:
        raise AspError(
            f"{name}: column {column!r} (--stratify) holds {num_strata} different values, above "
            f"{MOST_STRATA}; stratify on a coarser one"
        )


def count_strata(lists: pl.Series) -> Ints:
    """Prompts of each minibatch in each stratum, [b, s], strata in the order they first occur."""
    values = lists.explode(empty_as_null=False).alias("value").to_frame()
    codes = values.unique(maintain_order=True).with_row_index("stratum")
    code_p = values.join(codes, on="value", how="left", nulls_equal=True, maintain_order="left")[
        "stratum"
    ].to_numpy()
    row_p = np.repeat(np.arange(len(lists)), lists.list.len().to_numpy())
    cells = np.bincount(row_p * len(codes) + code_p, minlength=len(lists) * len(codes))
    return cells.reshape(len(lists), len(codes))


def spread_strata(
    problem: Problem, group_b: Ints, lists: pl.Series, bound: float, rng: np.random.Generator | None
) -> Ints:
    """Exchange minibatches of equal weight so that groups come nearer the strata of the whole.

    What falls with every exchange is the sum, over groups and strata, of the squared distance of
    the prompts held from the even share. In each round the groups meet in random pairs, and each
    pair makes its best exchange.

    Args:
        problem: Loads and weights.
        group_b: An assignment with the loads as equal as they should be.
        lists: The stratum of each prompt, a list a minibatch.
        bound: On the imbalance.
        rng: Draws the pairs; None: always the same.
    """
    groups = _Groups(problem, group_b, count_strata(lists), bound)
    rng = rng or np.random.default_rng(0)
    judged = np.flatnonzero(problem.is_judged_g)
    for _ in range(ROUNDS if len(judged) > 1 else 0):
        slots = rng.permutation(groups.width)[:MOST_MEMBERS]
        pairs = rng.permutation(judged)[: len(judged) // 2 * 2].reshape(-1, 2)
        for some in np.array_split(pairs, max(1, len(pairs) * groups.cells(slots) // CELLS)):
            groups.exchange(some, slots)
    return groups.group_b


class _Groups:
    """Members, loads and strata of each group. Groups have equally many slots, some empty (-1)."""

    def __init__(self, problem: Problem, group_b: Ints, count_bs: Ints, bound: float) -> None:
        members = members_of(problem, group_b)
        self.group_b = group_b.copy()
        self.width = max(map(len, members))
        self.member_gk = np.full((len(members), self.width), -1)
        for g, inside in enumerate(members):
            self.member_gk[g, : len(inside)] = inside
        self.load_b, self.weight_b = problem.load_b, problem.weight_b
        self.load_g = problem.loads(group_b)
        worst = max(1 + problem.imbalance(group_b), (1 + bound) * (1 + TOLERANCE))
        self.limit_g = problem.shares(self.load_g) * worst
        size_b = count_bs.sum(axis=1)
        self.beyond_bs = count_bs - np.outer(size_b, count_bs.sum(axis=0) / size_b.sum())
        self.beyond_gs = np.zeros((len(members), count_bs.shape[1]))
        np.add.at(self.beyond_gs, group_b, self.beyond_bs)

    def cells(self, slots: Ints) -> int:
        """Numbers that the exchange of a pair of groups computes with."""
        num_strata = len(self.beyond_gs[0])
        return len(slots) * (len(slots) + 2 * num_strata)

    def exchange(self, pairs: Ints, slots: Ints) -> None:
        """Between the groups of each pair, the exchange of two members that brings most."""
        g, h = pairs.T
        a, b = self.member_gk[g[:, None], slots], self.member_gk[h[:, None], slots]  # [pair, slot]
        a_beyond, b_beyond = self.beyond_bs[a], self.beyond_bs[b]  # [pair, slot, stratum]
        apart = self.beyond_gs[g] - self.beyond_gs[h]
        a_alone, b_alone = (
            (beyond**2).sum(axis=2) + sign * np.einsum("pks,ps->pk", beyond, apart)
            for beyond, sign in ((a_beyond, -1), (b_beyond, 1))
        )
        both = np.einsum("pks,pls->pkl", a_beyond, b_beyond)
        change = a_alone[:, :, None] + b_alone[:, None, :] - 2 * both  # half of the squares' change
        shift = self.load_b[a][:, :, None] - self.load_b[b][:, None, :]
        is_legal = (
            ((a >= 0)[:, :, None] & (b >= 0)[:, None, :])
            & (self.weight_b[a][:, :, None] == self.weight_b[b][:, None, :])
            & ((self.load_g[g][:, None, None] - shift) <= self.limit_g[g][:, None, None])
            & ((self.load_g[h][:, None, None] + shift) <= self.limit_g[h][:, None, None])
        )
        change = np.where(is_legal, change, np.inf).reshape(len(pairs), -1)
        best = np.argmin(change, axis=1)
        pays = np.flatnonzero(change[np.arange(len(pairs)), best] < -LEAST_CHANGE)
        k, m = np.unravel_index(best[pays], shift.shape[1:])
        self._swap(g[pays], slots[k], h[pays], slots[m])

    def _swap(self, g: Ints, k: Ints, h: Ints, m: Ints) -> None:
        """Slot k of each group g for slot m of its partner h."""
        a, b = self.member_gk[g, k], self.member_gk[h, m]
        self.member_gk[g, k], self.member_gk[h, m] = b, a
        self.group_b[a], self.group_b[b] = h, g
        for group, lost, gained in ((g, a, b), (h, b, a)):
            self.load_g[group] += self.load_b[gained] - self.load_b[lost]
            self.beyond_gs[group] += self.beyond_bs[gained] - self.beyond_bs[lost]
