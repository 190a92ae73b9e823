"""Naive ways to deal minibatches into groups, to compare with."""

import numpy as np

from stages.balance.problem import Ints, Problem


def sorted_order(problem: Problem) -> Ints:
    """Minibatches in ascending load: dispatching in length order."""
    return np.argsort(problem.load_b, kind="stable")


def shuffled_order(problem: Problem, seed: int) -> Ints:
    """Minibatches at random, as a shuffling data loader deals them."""
    return np.random.default_rng(seed).permutation(len(problem.load_b))


def snake_groups(problem: Problem) -> Ints:
    """Longest first, one to each group forth and back, skipping groups that are full."""
    num_groups = len(problem.capacity_g)
    room_g = problem.capacity_g.copy()
    turns = np.concatenate((np.arange(num_groups), np.arange(num_groups)[::-1]))
    group_b = np.empty(len(problem.load_b), dtype=np.int64)
    turn = 0
    for b in np.argsort(-problem.load_b, kind="stable"):
        fits = np.flatnonzero(room_g >= problem.weight_b[b])
        candidates = set(fits.tolist()) or {int(np.argmax(room_g))}
        while int(turns[turn % len(turns)]) not in candidates:
            turn += 1
        g = int(turns[turn % len(turns)])
        group_b[b] = g
        room_g[g] -= problem.weight_b[b]
        turn += 1
    return group_b


def fill(problem: Problem, order: Ints) -> Ints:
    """Fill the groups one after the other; a minibatch belongs where its first weight falls."""
    ends_g = np.cumsum(problem.capacity_g)
    weights = problem.weight_b[order]
    starts = np.cumsum(weights) - weights
    group_b = np.empty(len(order), dtype=np.int64)
    group_b[order] = np.searchsorted(ends_g, starts, side="right")
    return group_b
