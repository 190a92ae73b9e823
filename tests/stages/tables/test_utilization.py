"""Utilisation of one minibatch, of many, and of none."""

import numpy as np

from stages.tables.utilization import utilization


def test_by_hand() -> None:
    assert utilization(8.0, 12.0) == 8 / 12
    assert utilization(0.0, 0.0) == 1.0
    assert utilization(10.0, 10.0 * (1 - 1e-15)) == 1.0  # rounding does not make it more
    useful, paid = np.array([3.0, 0.0, 0.0]), np.array([4.0, 0.0, 5.0])
    assert utilization(useful, paid).tolist() == [0.75, 1.0, 0.0]
