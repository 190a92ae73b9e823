"""What is an actor's time spent on?

The time between two calls of the stopwatch is laid to one entry of the ledger, or divided: that of
a decode by the slots, that of a prefill by the tokens.
"""

import time
from collections.abc import Sequence

from rollout.simulator.ledger import Ledger
from rollout.trainer.samples import Draft

PULSE_S = 0.01  # about as long as the engine decodes before orders are looked at
MOST_STEPS = 1024


class Stopwatch:
    """Seconds of one actor, by what its engine did in them."""

    def __init__(self, num_slots: int) -> None:
        """Begin to measure, for an engine of so many slots."""
        self.spent = Ledger()
        self.num_tokens = 0  # made since `begin`
        self._num_slots = num_slots
        # Over the whole run: after a late call an engine may catch up, so that its next calls take
        # next to nothing. By one of these alone an order would wait for a thousand steps.
        self._decode_s, self._num_steps = PULSE_S, 1
        self._since_s = time.monotonic()  # up to here everything is in `spent`

    @property
    def steps_per_pulse(self) -> int:
        """Decode steps that take about PULSE_S."""
        return max(1, min(MOST_STEPS, int(PULSE_S * self._num_steps / self._decode_s)))

    def begin(self) -> None:
        """Count anew."""
        self.spent, self.num_tokens = Ledger(), 0

    def waited(self) -> None:
        """There was no work."""
        self.spent.sorting += self.lap()

    def loaded(self) -> None:
        """Weights were loaded."""
        self.spent.reload += self.lap()

    def prefilled(self, added: Sequence[Draft]) -> None:
        """Drafts were given to the engine; those that have tokens a second time."""
        seconds = self.lap()
        context = [len(draft.prompt_ids) + len(draft.token_ids) for draft in added]
        again = sum(c for c, draft in zip(context, added, strict=True) if draft.token_ids)
        share = again / max(1, sum(context))
        self.spent.carry += seconds * share
        self.spent.useful += seconds * (1 - share)

    def decoded(self, grown: Sequence[int], num_empty: int) -> None:
        """Responses grew by so many tokens each, beside so many empty slots."""
        seconds = self.lap()
        num_steps, num_slots = max(1, *grown), self._num_slots
        slot_steps = num_slots * num_steps
        self.num_tokens += sum(grown)
        self._decode_s += seconds
        self._num_steps += num_steps
        self.spent.useful += seconds * sum(grown) / slot_steps
        self.spent.skew += seconds * num_empty / num_slots
        self.spent.padding += seconds * (1 - num_empty / num_slots - sum(grown) / slot_steps)

    def lap(self) -> float:
        """Seconds since it was last asked."""
        now_s = time.monotonic()
        seconds, self._since_s = now_s - self._since_s, now_s
        return seconds
