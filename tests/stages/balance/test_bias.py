"""Distances from the whole, by hand and against another implementation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from stages.balance.bias import length_bias, stratum_bias


def test_lengths_by_hand() -> None:
    """Lengths 1 and 3 alone, whole mean 2: every length of a group is moved by 1 on half of it."""
    bias = length_bias(np.array([1.0, 3]), np.array([4, 4]), np.array([0, 1]), np.ones(2, bool), 0)
    assert bias.largest == bias.mean == pytest.approx(0.5)
    mixed = length_bias(
        np.array([1.0, 1, 3, 3]), np.array([2] * 4), np.array([0, 1, 0, 1]), np.ones(2, bool), 0
    )
    assert mixed.largest == pytest.approx(0, abs=1e-12)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(0, 2)), min_size=3))
def test_lengths_against_scipy(rows: list[tuple[int, int, int]]) -> None:
    tokens, size, group = (np.array(column) for column in zip(*rows, strict=True))
    group = np.unique(group, return_inverse=True)[1]
    num_groups = group.max() + 1
    bias = length_bias(tokens.astype(float), size, group, np.ones(num_groups, bool), 0)
    mean = np.average(tokens, weights=size)
    distances = [
        wasserstein_distance(tokens[group == g], tokens, size[group == g], size) / (mean or 1)
        for g in range(num_groups)
    ]
    assert bias.largest == pytest.approx(max(distances), abs=1e-9)
    assert bias.mean == pytest.approx(np.mean(distances), abs=1e-9)


def test_random_prompts_of_the_whole_are_the_whole() -> None:
    bias = length_bias(np.array([1.0, 5]), np.array([3, 4]), np.zeros(2, int), np.ones(1, bool), 0)
    assert bias == pytest.approx((0, 0, 0, 0), abs=1e-12)


def test_chance_falls_with_the_size_of_a_group() -> None:
    rng = np.random.default_rng(0)
    tokens, size = rng.lognormal(5, 1, 512), np.full(512, 8)
    small, large = (
        length_bias(tokens, size, np.arange(512) // held, np.ones(512 // held, bool), 0).random_mean
        for held in (2, 32)
    )
    assert 3 < small / large < 5  # as the root of 16


def test_strata_by_hand() -> None:
    """Half a, half b in the whole; 3 of 4 are a in one group: one of its four must go."""
    count_bs = np.array([[3, 1], [1, 3]])
    bias = stratum_bias(count_bs, np.array([0, 1]), np.ones(2, bool), 0)
    assert bias.largest == bias.mean == 0.25
    even = stratum_bias(count_bs, np.array([0, 0]), np.ones(1, bool), 0)
    assert even == (0, 0, 0, 0)


def test_groups_that_are_not_judged_are_not_measured() -> None:
    count_bs, is_judged = np.array([[2, 2], [1, 0]]), np.array([True, False])
    assert stratum_bias(count_bs, np.array([0, 1]), is_judged, 0).largest == pytest.approx(0.1)
