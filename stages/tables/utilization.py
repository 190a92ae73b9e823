"""How much of what static minibatches hold is useful?"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Quantity = TypeVar("Quantity", bound=float | NDArray[np.float64])


def utilization(useful: Quantity, paid: Quantity) -> Quantity:
    """Useful tokens over slot-steps paid for (slots x longest), at most 1; 1 where none is paid."""
    paid_ = np.asarray(paid, dtype=np.float64)
    ratio = np.divide(useful, paid_, out=np.ones_like(paid_), where=paid_ > 0)
    return np.minimum(ratio, 1.0)  # type: ignore[return-value]
