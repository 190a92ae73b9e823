"""What does the Control Unit tell actors and trainer?

A *sample group* is one prompt's n responses in one epoch; it goes by its number in the plan.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Response(NamedTuple):
    """One response, and the tokens that it has already."""

    group: int  # number of its sample group in the plan
    sample: int  # which of the group's responses, from 0
    tokens: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """Responses that an actor generates together: a minibatch, or what is left of one."""

    number: int  # never used twice: work that is handed out again gets a new one
    step: int  # training step that it is for
    round: int  # 0 for a head, else the tail round
    token_budget: int | None  # stop each response at so many tokens, counted from its first
    responses: tuple[Response, ...]
    epoch: int | None = None
    minibatch_id: int | None = None  # None: a tail that the plan did not foresee


class Unfinished(NamedTuple):
    """A response that goes on in a tail of this step and round."""

    step: int
    round: int
    response: Response


class HeldOver(NamedTuple):
    """A sample group that left its step for one that was not taken: what a later run has to know.

    Without unfinished responses it is complete, and waits for its rewards or its step.
    """

    group: int
    step: int  # that it has joined
    first_version: int | None  # that made its first token; None: it has none
    unfinished: tuple[Unfinished, ...]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Generate this; answer `ended`."""

    actor: int
    work: Work


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing for this free actor now; no answer, a Dispatch comes when there is."""

    actor: int
    reason: Literal["lag", "pace", "placement", "deal", "exhausted"]


@dataclass(frozen=True, slots=True)
class Unload:
    """Put down all work and keep its tokens; answer `unloaded`."""

    actor: int


@dataclass(frozen=True, slots=True)
class Reload:
    """Load these weights; answer `reloaded`."""

    actor: int
    version: int


@dataclass(frozen=True, slots=True)
class Requeue:
    """For the record: this work was put down or lost, and goes out again before any other."""

    work: Work


@dataclass(frozen=True, slots=True)
class Score:
    """Ask for the rewards of complete sample groups; answer `scored`."""

    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Train:
    """Take these sample groups out of the Training Queue and train; answer `trained`."""

    step: int
    groups: tuple[int, ...]
    lags: tuple[int, ...]  # of each: step less the version that made its first token
    failed: frozenset[int]  # groups in which a response or a reward never came


Command = Dispatch | Hold | Unload | Reload | Requeue | Score | Train
