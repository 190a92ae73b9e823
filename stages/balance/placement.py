"""Which instance generates which minibatch, so that the instances of a group finish together?

Instances may differ in speed. Longest first to the instance that would finish it first, then single
moves and swaps that let the last instance finish earlier. A bound says how far that can be from the
best.
"""

from typing import NamedTuple

import numpy as np

from stages.balance.problem import Floats, Ints


class Placement(NamedTuple):
    """Instance of each minibatch of a group, when the last one finishes, and a bound on that."""

    instance_b: Ints
    seconds: float
    bound: float


def place(load_b: Floats, speed_i: Floats) -> Placement:
    """Place the minibatches of one group.

    Args:
        load_b: Time of each on an instance of speed 1, in any unit.
        speed_i: Speed of each instance, above 0.
    """
    instance_b = _longest_first(load_b, speed_i)
    instance_b = _improve(load_b, speed_i, instance_b)
    return Placement(instance_b, _finish(load_b, speed_i, instance_b).max(), bound(load_b, speed_i))


def bound(load_b: Floats, speed_i: Floats) -> float:
    """No placement finishes before: the k longest on the k fastest, for each k; all on all."""
    longest, fastest = np.sort(load_b)[::-1], np.sort(speed_i)[::-1]
    k = min(len(longest), len(fastest))
    ratios = np.cumsum(longest)[:k] / np.cumsum(fastest)[:k]
    return float(max(ratios.max(initial=0.0), load_b.sum() / speed_i.sum()))


def _finish(load_b: Floats, speed_i: Floats, instance_b: Ints) -> Floats:
    return np.bincount(instance_b, load_b, len(speed_i)) / speed_i


def _longest_first(load_b: Floats, speed_i: Floats) -> Ints:
    instance_b = np.empty(len(load_b), dtype=np.int64)
    held_i = np.zeros(len(speed_i))
    for b in np.argsort(-load_b, kind="stable"):
        instance = int(np.argmin((held_i + load_b[b]) / speed_i))
        instance_b[b] = instance
        held_i[instance] += load_b[b]
    return instance_b


def _improve(load_b: Floats, speed_i: Floats, instance_b: Ints) -> Ints:
    """Move a minibatch off the last instance, or swap one with another's, while that helps."""
    instance_b = instance_b.copy()
    while True:
        finish_i = _finish(load_b, speed_i, instance_b)
        last = int(np.argmax(finish_i))
        best, choice = finish_i[last] * (1 - 1e-12), None
        for given in np.flatnonzero(instance_b == last):
            for other in range(len(speed_i)):
                if other == last:
                    continue
                taken = np.flatnonzero(instance_b == other)
                shift = load_b[given] - np.append(load_b[taken], 0.0)  # the last: nothing back
                worse = np.maximum(
                    finish_i[last] - shift / speed_i[last],
                    finish_i[other] + shift / speed_i[other],
                )
                k = int(np.argmin(worse))
                if worse[k] < best:
                    best = worse[k]
                    choice = given, other, taken[k] if k < len(taken) else None
        if choice is None:
            return instance_b
        given, other, back = choice
        instance_b[given] = other
        if back is not None:
            instance_b[back] = last
