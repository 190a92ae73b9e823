"""What does a response carry from the engine that made it to the step that trains on it?

Array legends: t tokens of one response.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

EndReason = Literal["stop", "length", "abort"]


@dataclass
class Draft:
    """A response while it is generated: what it has so far, wherever it was begun.

    It grows in an engine, may be put down, and goes on in another engine on other weights. So
    each token keeps the log-probability with which it was drawn (at the sampling temperature)
    and the policy version that drew it.
    """

    group: int  # number of its sample group in the plan
    sample: int  # which of the group's responses, from 0
    prompt_ids: tuple[int, ...]
    limit: int  # tokens, counted from the first, at which the engine stops it: budget or cap
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    end: EndReason | None = None  # None: it has not ended (cut, put down, or still decoded)


@dataclass(frozen=True, eq=False)
class Sample:
    """An ended response with its reward, ready to be trained on."""

    prompt_ids: np.ndarray  # (p,) int64
    token_ids: np.ndarray  # (t,) int64, the end token included
    logprobs_t: np.ndarray  # (t,) float32: of each token, under the weights that drew it
    end: EndReason
    reward: float


@dataclass(frozen=True, eq=False)
class SampleGroup:
    """One prompt's n samples: they share a baseline, so they are trained on together."""

    group: int  # its number in the plan
    prompt_id: int
    samples: tuple[Sample, ...]
    lag: int  # training steps, from the version of its first token
    is_masked: bool = False  # a response or reward never came: consumed, yet not trained on
