"""What does an engine with continuous batching hold?"""

from dataclasses import dataclass, field
from typing import NamedTuple

from rollout.control.messages import Response, Work


class Waits(NamedTuple):
    """A response that has no slot yet."""

    work: int
    response: Response
    stop: int  # tokens at which it stops
    context: int  # tokens that it is prefilled with


class Slot(NamedTuple):
    """A response that is being decoded."""

    end: float  # decode step, counted by its engine, at which it stops
    sequence: int  # breaks ties in order of start
    start: float  # decode step at which it began
    begun: Waits


@dataclass
class Running:
    """A minibatch that has not ended."""

    work: Work
    num_left: int
    deadline_s: float
    cut: list[Response] = field(default_factory=list)
