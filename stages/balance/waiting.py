"""How long do synchronous steps wait for their longest responses, and what is the least of it?

A step that generates one group, with slots for all of it, ends with the group's longest response:
the steps together take the sum over the groups of their longest. It is least where groups are
filled in descending length, the smaller remainder last. For groups of capacity c, take any dealing
and sort its groups by their longest: the first j hold at most j c, so the next one's longest is at
least that at place j c of the descending line, which filling in order attains.
"""

import numpy as np

from stages.balance.problem import Floats, Ints, Problem

SAVED_BY_LONG_GROUPS = 0.5  # of what groups of like lengths save over balanced ones


def longest_first(longest_b: Floats) -> Ints:
    """Minibatches in descending length."""
    return np.argsort(-longest_b, kind="stable")


def mean_longest(longest_b: Floats, group_b: Ints, num_groups: int) -> float:
    """Mean over the groups of their longest [tokens]."""
    longest_g = np.zeros(num_groups)
    np.maximum.at(longest_g, group_b, longest_b)
    return float(longest_g.mean())


def least_mean_longest(longest_b: Floats, problem: Problem) -> float:
    """What no dealing's `mean_longest` is below, minibatches of this table cut or whole."""
    order_b = longest_first(longest_b)
    return float(longest_b[order_b[_starts(order_b, problem)]].mean())


def num_long_groups(
    longest_b: Floats, problem: Problem, share: float = SAVED_BY_LONG_GROUPS
) -> int:
    """The fewest groups that, filled with the longest, save a share of what `like` saves.

    Saved is `mean_longest`. In balanced groups every one of the longest minibatches stands in a
    group of its own, so their longest are the heads of the descending line.
    """
    order_b = longest_first(longest_b)
    descending, starts = longest_b[order_b], _starts(order_b, problem)
    num_groups = len(starts)
    heads = np.concatenate(([0.0], np.cumsum(descending)))
    ends = np.minimum(starts + num_groups - np.arange(num_groups), len(descending))
    long = np.concatenate(([0.0], np.cumsum(descending[starts])))
    total = long[:-1] + heads[ends] - heads[starts]
    saved = total[0] - total
    most = int((problem.capacity_g == problem.capacity_g[0]).sum())  # one stays representative
    is_enough = saved[:most] >= share * (total[0] - long[-1])
    if total[0] <= long[-1] or not is_enough.any():
        return 0
    return int(np.argmax(is_enough))


def _starts(order_b: Ints, problem: Problem) -> Ints:
    """Place in the descending line of the minibatch with which each group starts."""
    start_g = np.cumsum(problem.capacity_g) - problem.capacity_g
    return np.searchsorted(np.cumsum(problem.weight_b[order_b]), start_g, side="right")
