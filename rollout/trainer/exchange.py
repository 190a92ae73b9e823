"""What do the driver and a Generation Unit tell each other?

Orders go to a unit at once, news is fetched from it as it comes. An actor goes by the number that
the Control Unit knows it by, and news of a number from before a rollback is passed over.
"""

from dataclasses import dataclass, field
from pathlib import Path

from rollout.simulator.ledger import Ledger
from rollout.trainer.samples import Draft


@dataclass(frozen=True)
class Generate:
    """Generate until each draft has an end or stands at its limit; answer `Ended`."""

    actor: int
    work: int
    drafts: list[Draft]
    seconds: float  # what has no end by then is given up: end "abort"


@dataclass(frozen=True)
class PutDown:
    """Stop everything; answer `Unloaded`."""

    actor: int


@dataclass(frozen=True)
class Load:
    """Load weights into an actor without work; answer `Loaded` or `Refused`."""

    actor: int
    version: int
    snapshot: Path


@dataclass(frozen=True)
class Ended:
    """Every draft of the work is through."""

    actor: int
    work: int
    drafts: list[Draft]


@dataclass(frozen=True)
class Free:
    """Another minibatch is welcome."""

    actor: int


@dataclass(frozen=True)
class Unloaded:
    """Everything is put down; work that is not named had ended before."""

    actor: int
    drafts: dict[int, list[Draft]]  # all of each work


@dataclass(frozen=True)
class Loaded:
    """The weights are there."""

    actor: int
    version: int


@dataclass(frozen=True)
class Refused:
    """The snapshot could not be read; the actor waits for another."""

    actor: int
    reason: str


@dataclass(frozen=True)
class Broken:
    """The engine failed; nothing more is to be expected of the actor."""

    actor: int
    reason: str


class EngineBroke(Exception):
    """`Broken`, told to who wants the actor to begin; its text is the reason."""


Order = Generate | PutDown | Load
News = Ended | Free | Unloaded | Loaded | Refused | Broken


@dataclass(frozen=True)
class State:
    """How an actor is doing."""

    num_active: int = 0  # responses being decoded
    num_tokens: int = 0  # that it made since it began
    spent: Ledger = field(default_factory=Ledger)  # seconds since then, on one device
