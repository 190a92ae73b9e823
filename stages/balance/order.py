"""In which order are groups dispatched, and minibatches inside a group?

Groups: so that the running load stays near the line of the mean (goal chasing, as in levelled
production: Miltenburg 1989). Inside a group the longest minibatch starts first, since what starts
last decides when the group ends.
"""

from bisect import bisect_left

import numpy as np

from stages.balance.problem import Floats, Ints, Problem


def order_groups(problem: Problem, group_b: Ints, rng: np.random.Generator | None = None) -> Ints:
    """The groups in dispatch order: next comes what brings the running load nearest the mean.

    With `rng`: any group that keeps the running load as near as that order does, where there is
    one. A smaller remainder group stays last: a trainer that cuts fixed batches needs the full ones
    first.
    """
    if rng is None:
        return _ordered(problem, group_b, 0.0, None)
    nearest = _ordered(problem, group_b, 0.0, None)
    reach = float(np.abs(running_deviation(problem, group_b, nearest)).max())
    return _ordered(problem, group_b, reach, rng)


def _ordered(
    problem: Problem, group_b: Ints, reach: float, rng: np.random.Generator | None
) -> Ints:
    deviation_g = problem.loads(group_b) - problem.target_g
    is_full = problem.capacity_g == problem.capacity_g[0]
    waiting = sorted((float(deviation_g[g]), int(g)) for g in np.flatnonzero(is_full))
    order, running = [], 0.0
    while waiting:
        first, last = (bisect_left(waiting, (edge - running, -1)) for edge in (-reach, reach))
        if rng is not None and first < last:
            chosen = int(rng.integers(first, last))
        else:
            k = bisect_left(waiting, (-running, -1))
            near = [i for i in (k - 1, k) if 0 <= i < len(waiting)]
            chosen = min(near, key=lambda i: (abs(waiting[i][0] + running), i))
        deviation, g = waiting.pop(chosen)
        order.append(g)
        running += deviation
    return np.array([*order, *np.flatnonzero(~is_full)], dtype=np.int64)


def running_deviation(problem: Problem, group_b: Ints, order_g: Ints) -> Floats:
    """Running load less the running target, after each group of the order."""
    deviation_g = problem.loads(group_b) - problem.target_g
    return np.cumsum(deviation_g[order_g])


def least_running_deviation(problem: Problem, group_b: Ints) -> float:
    """What no order's largest running deviation is below.

    Before and after a group it differs by the group's own deviation, so half of that is met on one
    of the two sides; before the remainder, which comes last, all of it.
    """
    deviation_g = np.abs(problem.loads(group_b) - problem.target_g)
    is_rest = problem.capacity_g != problem.capacity_g[0]
    return float(max(deviation_g.max() / 2, deviation_g[is_rest].max(initial=0.0)))
