"""What is a reward?"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Reward(Protocol):
    """A judge of responses to one prompt.

    It may raise; the group then counts as failed, with the reason told. AspError ends the run.
    """

    def __call__(self, responses: Sequence[str], row: Mapping[str, Any]) -> Sequence[float]:
        """Score each response; `row` is the prompt's row in the user's prompt file."""
