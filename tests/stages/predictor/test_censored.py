"""What a normal beyond a bound is expected to be. The fit itself: `test_ridge.py`."""

import numpy as np
import pytest

from stages.predictor.censored import expected_beyond


def test_expected_beyond_of_a_half_normal() -> None:
    mean, variance = expected_beyond(np.zeros(1), 1.0, np.zeros(1))
    assert mean[0] == pytest.approx(np.sqrt(2 / np.pi))
    assert variance[0] == pytest.approx(1 - 2 / np.pi)


@pytest.mark.parametrize("bound", [-1e4, -40.0, 40.0, 1e4])
def test_expected_beyond_far_from_the_bound(bound: float) -> None:
    mean, variance = expected_beyond(np.zeros(1), 1.0, np.array([bound]))
    assert mean[0] == pytest.approx(max(bound, 0.0), abs=0.05)
    assert 0 <= variance[0] <= 1
