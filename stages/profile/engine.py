"""What is asked of an engine that generates: answers to a batch of requests.

`transformers_engine.py` is one; whatever fits the protocol can take its place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

FinishReason = Literal["stop", "length", "abort"]
OnTokens = Callable[[int], None]  # told the response tokens made since it was last told


@dataclass(frozen=True)
class Sampling:
    """How responses are drawn."""

    temperature: float  # 0: greedy
    max_response_tokens: int  # the cap, the end token included


@dataclass(frozen=True)
class Request:
    """One response wanted."""

    prompt_id: int
    prompt: Any  # as the user wrote it: text or messages
    sample_index: int


@dataclass(frozen=True)
class Answer:
    """What is kept of a response: how long, and how it came about."""

    response_tokens: int  # the end token included
    finish_reason: FinishReason
    prompt_tokens: int | None = None
    latency_s: float | None = None  # request to last token
    ttft_s: float | None = None  # request to first token
    concurrency: int | None = None  # requests decoded together


@dataclass(frozen=True)
class Batch:
    """Requests generated together, with a seed of their own.

    The seed hangs on the batch alone, not on what was generated before it, so a resumed run
    draws what an uninterrupted one would have drawn.
    """

    number: int
    seed: int
    requests: Sequence[Request]


class Engine(Protocol):
    """A target model, ready to generate."""

    @property
    def model(self) -> str:
        """Its name, for the profile."""

    def describe(self) -> dict[str, Any]:
        """What else decides its answers (no path, no host): for the footer and the journal."""

    def generate(self, batch: Batch, sampling: Sampling, on_tokens: OnTokens) -> list[Answer]:
        """Answer every request, in their order."""


def cut_batches(requests: Sequence[Request], batch_size: int, seed: int) -> list[Batch]:
    """Cut requests into batches of `batch_size`, the last one smaller where they do not divide."""
    return [
        Batch(
            number,
            int(np.random.SeedSequence([seed, number]).generate_state(1)[0]),
            requests[start : start + batch_size],
        )
        for number, start in enumerate(range(0, len(requests), batch_size))
    ]
