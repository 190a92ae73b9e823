"""How many seconds does a minibatch take on a static engine?

All slots are held until the longest response ends. So a minibatch of n sequences whose prompts
have P tokens together, and whose longest response has t, takes

    c(t) = prefill P + (step + sequence n + kv P) t + kv n t^2 / 2   [s]

Every prompt is prefilled once for each of its samples. A decode step costs a fixed part (launching
kernels, reading the weights), a part for each sequence in it, and a part for each token of context
that attention reads: P at first, and n more with each step, which adds up to P t + n t^2 / 2.

c is a polynomial of degree 2, so where the longest is uncertain, the expected seconds follow from
its mean and mean square: E[c] = c(0) + integral of c'(t) P(longest > t) dt.
"""

import math
from dataclasses import astuple, dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stages.tables.provenance import Provenance

Quantity = TypeVar("Quantity", bound=float | NDArray[np.float64])


@dataclass(frozen=True)
class CostModel:
    """The coefficients of c(t), all at least 0.

    The defaults are an assumption, not a measurement: the ratio of the first two, 0.004 of the
    fixed part a sequence, makes 250 sequences double a step. Orders and balances depend on the
    ratios alone. Prefill and context are left out (0) unless they are measured.
    """

    step_seconds: float = 0.02  # fixed part of a decode step
    sequence_seconds: float = 0.00008  # added by each sequence in the step
    prefill_seconds: float = 0.0  # of one prompt token of one sequence
    kv_seconds: float = 0.0  # added to a step by each token of context, prompt and response

    @property
    def counts_prompts(self) -> bool:
        """Whether the length of the prompts has any effect."""
        return self.prefill_seconds > 0 or self.kv_seconds > 0

    def coefficients(
        self, num_sequences: Quantity, prompt_tokens: Quantity | float = 0.0
    ) -> tuple[Any, Any, Any]:
        """c0, c1, c2 of c(t) = c0 + c1 t + c2 t^2; prompt_tokens over all sequences."""
        held: Any = prompt_tokens
        step = self.step_seconds + self.sequence_seconds * num_sequences + self.kv_seconds * held
        return self.prefill_seconds * held, step, self.kv_seconds * num_sequences / 2

    def minibatch_seconds(
        self,
        longest: Quantity,
        num_sequences: Quantity,
        prompt_tokens: Quantity | float = 0.0,
        longest_square: Quantity | None = None,
    ) -> Quantity:
        """c(longest), or its expectation.

        Args:
            longest: Longest response, or its expectation [tokens].
            num_sequences: Responses.
            prompt_tokens: Of all sequences: a prompt counts once for each of its samples.
            longest_square: Expected square of the longest; None where the longest is certain.
        """
        certain: Any = longest
        square = certain * certain if longest_square is None else longest_square
        c0, c1, c2 = self.coefficients(num_sequences, prompt_tokens)
        seconds: Quantity = c0 + c1 * longest + c2 * square
        return seconds

    def part_seconds(self, seconds: Quantity, longest: Quantity, share: Quantity) -> Quantity:
        """Seconds of a part that keeps the longest but a `share` of the sequences and prompts.

        The fixed part of every step stays; all else is in proportion to the share.
        """
        fixed = np.minimum(self.step_seconds * longest, seconds)
        return fixed + share * (seconds - fixed)  # type: ignore[return-value]

    def slot_seconds(self, num_sequences: int) -> float:
        """A slot's part of a decode step among so many slots, context left out."""
        return self.step_seconds / num_sequences + self.sequence_seconds

    def prefill_cost(self, num_sequences: int) -> float | None:
        """Device time of prefilling a token over that of one slot for one decode step.

        None: the model says nothing of prefill, or steps are free.
        """
        slot_seconds = self.slot_seconds(num_sequences)
        if not self.prefill_seconds or not slot_seconds:
            return None
        return self.prefill_seconds / slot_seconds


def recorded_cost_model(provenance: Provenance | None) -> CostModel:
    """The model that partition used, by the footers of a chain; the default where none tells."""
    origin = provenance.ancestor("partition") if provenance else None
    try:
        model = CostModel(**origin.config["cost_model"]) if origin else CostModel()
        is_usable = all(0 <= value < math.inf for value in astuple(model))
    except (KeyError, TypeError):
        is_usable = False
    return model if is_usable else CostModel()
