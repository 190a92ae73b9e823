"""What does a Generation Unit ask of the engine that decodes?

`transformers.py` and `vllm.py` run a model, `timed.py` replays recorded lengths; whatever fits the
protocol can take their place.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rollout.trainer.samples import Draft


class Engine(Protocol):
    """A model that decodes several responses at once, on weights that can be replaced."""

    @property
    def slots(self) -> int:
        """Responses that it decodes at once."""

    @property
    def version(self) -> int:
        """Policy version of the loaded weights; -1 before the first `load`."""

    def load(self, version: int, snapshot: Path) -> None:
        """Replace the weights by those of a snapshot directory; only while it is empty.

        Raises:
            AspError: The snapshot can't be read.
        """

    def add(self, drafts: Sequence[Draft]) -> None:
        """Take responses into free slots: prefill prompt and tokens that are there already."""

    def decode(self, num_steps: int) -> list[Draft]:
        """Decode up to `num_steps` tokens of each response; give back those that are through.

        One is through when it has an `end`, or stands at its `limit` (end: None).
        """

    def put_down(self) -> list[Draft]:
        """Empty every slot; give back what was being decoded, with its tokens."""
