"""Naive ways to deal minibatches into groups, to compare with."""

import numpy as np

from stages.balance.config import Baseline
from stages.balance.problem import Ints, Problem


def order(problem: Problem, method: Baseline, seed: int) -> Ints | None:
    """The order of minibatches that a baseline stands for; None: it has none of its own."""
    match method:
        case "sorted":  # ascending load: dispatching in length order
            return np.argsort(problem.load_b, kind="stable")
        case "shuffled":  # as a shuffling data loader deals them
            return np.random.default_rng(seed).permutation(len(problem.load_b))
        case "snake":
            return None


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


def fill(weight_b: Ints, capacity_g: Ints, order_b: Ints) -> Ints:
    """Fill the groups one after the other; a minibatch belongs where its first weight falls."""
    starts = np.cumsum(weight_b[order_b]) - weight_b[order_b]
    group_b = np.empty(len(order_b), dtype=np.int64)
    group_b[order_b] = np.searchsorted(np.cumsum(capacity_g), starts, side="right")
    return group_b
