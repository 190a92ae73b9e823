"""Placement on instances against exhaustive search, and its bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.balance.placement import bound, place

loads = st.lists(st.floats(0, 100), min_size=1, max_size=7)
speeds = st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=3)


@settings(max_examples=60)
@given(loads, speeds)
def test_between_the_bound_and_near_the_best(load: list[float], speed: list[float]) -> None:
    load_b, speed_i = np.array(load), np.array(speed)
    placed = place(load_b, speed_i)
    best = min(
        (np.bincount(choice, load_b, len(speed_i)) / speed_i).max()
        for choice in itertools.product(range(len(speed_i)), repeat=len(load_b))
    )
    assert placed.bound == bound(load_b, speed_i) <= best + 1e-9
    assert best - 1e-9 <= placed.seconds <= 1.25 * best + 1e-9
    finish_i = np.bincount(placed.instance_b, load_b, len(speed_i)) / speed_i
    assert placed.seconds == pytest.approx(finish_i.max())


def test_by_hand() -> None:
    """9 + 1 on one, 6 + 4 on the other; the slow one of two gets a third."""
    assert place(np.array([9.0, 6, 4, 1]), np.ones(2)).seconds == 10
    placed = place(np.array([4.0, 4, 4]), np.array([2.0, 1.0]))
    assert placed.instance_b.tolist().count(0) == 2 and placed.seconds == placed.bound == 4
