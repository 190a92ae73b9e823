"""How many seconds does a minibatch take on a static engine?

A decode step costs a fixed part (launching kernels, reading the weights) and a part for each
sequence in it; a minibatch takes as many steps as its longest response has tokens.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Quantity = TypeVar("Quantity", bound=float | NDArray[np.float64])


@dataclass(frozen=True)
class CostModel:
    """Seconds of a decode step as a straight line in the number of sequences.

    The defaults are an assumption, not a measurement: their ratio, 0.004 of the fixed part a
    sequence, makes 250 sequences double a step. Orders and balances depend on the ratio alone.
    """

    step_seconds: float = 0.02  # fixed part of a decode step
    sequence_seconds: float = 0.00008  # added by each sequence in the step

    def minibatch_seconds(self, longest: Quantity, num_sequences: Quantity) -> Quantity:
        """longest x (step + sequence x num_sequences): finished slots are padded to the end."""
        return longest * (self.step_seconds + self.sequence_seconds * num_sequences)  # type: ignore[return-value]
