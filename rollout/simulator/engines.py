"""What does the simulator ask of an actor?

`StaticEngine` and `ContinuousEngine` answer. An engine knows when its next response or minibatch
ends, and enters in a ledger what its device-seconds were spent on.
"""

from typing import NamedTuple, Protocol

from rollout.control.messages import Response, Work
from rollout.simulator.ledger import Ledger
from rollout.simulator.price import Price

TINY = 1e-6  # decode steps: far below one, far above rounding


class Ended(NamedTuple):
    """A minibatch that has ended."""

    work: Work
    cut: list[Response]  # stopped at its budget
    failed: list[Response]  # timed out


class Engine(Protocol):
    """What the simulator asks of an actor."""

    price: Price
    spent: Ledger  # device-seconds while it has work

    @property
    def num_active(self) -> int:
        """Responses that are being decoded."""

    def start(self, work: Work, now_s: float, deadline_s: float) -> bool:
        """Take a minibatch, and give up what has not ended then; whether another one is welcome."""

    def next_s(self) -> float:
        """When `advance` is due; infinity where nothing is under way."""

    def advance(self, now_s: float) -> tuple[list[Ended], bool]:
        """What has ended at `next_s`, and whether the actor asks for another minibatch."""

    def stop(self, now_s: float) -> dict[int, list[Response]]:
        """Put down everything: what has not ended, by work, in whole tokens."""

    def lose(self, now_s: float) -> None:
        """Everything since each start was in vain."""
