"""What is asked of an engine: answers to requests, in any order, each kept when it is finished.

`transformers_engine.py` decodes a batch at a time, which `InBatches` makes an engine of;
`vllm_engine.py` refills slots; `endpoint/engine.py` asks servers. Whatever fits the protocol can
take their place.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np

from stages.tables.errors import AspError

FinishReason = Literal["stop", "length", "abort"]
TokensFrom = Literal["count", "text"]  # what made a response counted them, or a tokenizer its text
LocalEngine = Literal["transformers", "vllm"]  # what --engine takes
Key = tuple[int, int]  # prompt_id, sample_index
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

    @property
    def key(self) -> Key:
        """What tells it from all others."""
        return self.prompt_id, self.sample_index


@dataclass(frozen=True)
class Answer:
    """What is kept of a response: how long, and how it came about."""

    response_tokens: int  # the end token included
    finish_reason: FinishReason
    prompt_tokens: int | None = None
    latency_s: float | None = None  # request to last token
    ttft_s: float | None = None  # request to first token
    concurrency: int | None = None  # requests decoded together
    tokens_from: TokensFrom = "count"


def check_installed(engine: LocalEngine) -> None:
    """See that what --engine names is here, without importing it.

    Raises:
        AspError: It is not.
    """
    if engine == "vllm" and find_spec("vllm") is None:
        raise AspError("--engine vllm: is not installed here; install vLLM, or leave it out")


Finished = Sequence[tuple[Request, Answer]]
News = Sequence[tuple[Request, Answer | None]]  # None: it is left out


class Unanswered(AspError):
    """An engine gave up before every request was answered; the same command may go on."""


class Engine(Protocol):
    """A target model, ready to be asked."""

    @property
    def model(self) -> str:
        """Its name, for the profile."""

    def describe(self) -> dict[str, Any]:
        """What else decides its answers (no path, no host): for the footer and the journal."""

    def answer(
        self, requests: Iterable[Request], sampling: Sampling, on_tokens: OnTokens
    ) -> Generator[News, None, None]:
        """Answer each request once, or leave it out where none can; says how many.

        A request is taken when it is to be made, and no earlier: there may be none by then. What
        is yielded together is kept together.

        Raises:
            Unanswered: Some of them cannot be had now.
        """


@dataclass(frozen=True)
class Batch:
    """Requests generated together, with a seed of their own."""

    seed: int
    requests: Sequence[Request]


class BatchEngine(Protocol):
    """A target model that generates a batch at a time."""

    @property
    def model(self) -> str:
        """Its name, for the profile."""

    def describe(self) -> dict[str, Any]:
        """What else decides its answers (no path, no host): for the footer and the journal."""

    def generate(self, batch: Batch, sampling: Sampling, on_tokens: OnTokens) -> list[Answer]:
        """Answer every request, in their order."""


@dataclass(frozen=True)
class InBatches:
    """An engine of one that generates a batch at a time.

    Batches are finished whole and in order, so a resumed run, asked for the rest, cuts it as an
    uninterrupted one does; and the seed of a batch hangs on its first request alone. So it draws
    what an uninterrupted run would have drawn.
    """

    engine: BatchEngine
    batch_size: int
    seed: int

    @property
    def model(self) -> str:
        """Its name, for the profile."""
        return self.engine.model

    def describe(self) -> dict[str, Any]:
        """What the engine says, and the size of the batches, on which the draws hang."""
        return self.engine.describe() | {"batch_size": self.batch_size}

    def answer(
        self, requests: Iterable[Request], sampling: Sampling, on_tokens: OnTokens
    ) -> Generator[Finished, None, None]:
        """Answer every request; a batch is yielded when its last response has ended."""
        left = iter(requests)
        while asked := list(islice(left, self.batch_size)):
            batch = Batch(_seed_of(self.seed, asked[0].key), asked)
            answers = self.engine.generate(batch, sampling, on_tokens)
            yield list(zip(asked, answers, strict=True))


def _seed_of(seed: int, key: Key) -> int:
    return int(np.random.SeedSequence([seed, *key]).generate_state(1)[0])
