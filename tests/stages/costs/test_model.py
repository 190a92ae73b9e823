"""Seconds of a minibatch by hand."""

import numpy as np

from stages.costs.model import CostModel


def test_a_minibatch_takes_as_many_steps_as_its_longest() -> None:
    model = CostModel(step_seconds=0.5, sequence_seconds=0.25)
    assert model.minibatch_seconds(10.0, 4.0) == 10 * (0.5 + 4 * 0.25)
    longest, sequences = np.array([10.0, 0.0]), np.array([4.0, 4.0])
    assert model.minibatch_seconds(longest, sequences).tolist() == [15.0, 0.0]
