"""What do decode steps and prefills cost on one actor?

Engines do not step token by token. Between two ends the number of sequences is constant, so n
sequences with C tokens of context take

    (step + sequence n + kv C) x + kv n x^2 / 2   [s]

for x decode steps, which is solved for x where an actor is interrupted.
"""

import math
from dataclasses import dataclass

from stages.costs.model import CostModel


@dataclass(frozen=True)
class Price:
    """Seconds on one actor, with its speed in them."""

    step: float  # fixed part of a decode step
    sequence: float
    kv: float
    prefill: float
    slots: int
    num_devices: int

    @classmethod
    def of(cls, model: CostModel, speed: float, slots: int, num_devices: int) -> "Price":
        """Of a cost model at a speed."""
        return cls(
            model.step_seconds / speed, model.sequence_seconds / speed, model.kv_seconds / speed,
            model.prefill_seconds / speed, slots, num_devices,
        )  # fmt: skip

    def decode_seconds(self, num_steps: float, num_sequences: int, context: float) -> float:
        """Of so many decode steps; context [tokens] of all sequences, before the first."""
        slope = self.step + self.sequence * num_sequences + self.kv * context
        return slope * num_steps + self.kv * num_sequences * num_steps * num_steps / 2

    def num_steps(self, seconds: float, num_sequences: int, context: float) -> float:
        """Decode steps in so many seconds: the inverse of `decode_seconds`."""
        slope = self.step + self.sequence * num_sequences + self.kv * context
        root = slope * slope + 2 * self.kv * num_sequences * seconds
        return 2 * seconds / (slope + math.sqrt(root)) if root > 0 else math.inf

    def slot_seconds(self, num_steps: float, num_sequences: int, context: float) -> float:
        """The part of `decode_seconds` that belongs to the slots of these sequences."""
        slope = (self.step / self.slots + self.sequence) * num_sequences + self.kv * context
        return slope * num_steps + self.kv * num_sequences * num_steps * num_steps / 2

    def response_seconds(self, start: float, stop: float, prompt_tokens: int) -> float:
        """Of the slot of one response, from `start` to `stop` tokens."""
        return self.slot_seconds(stop - start, 1, prompt_tokens + start)
