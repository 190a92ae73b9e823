"""The target model run by vLLM on this machine: a slot is refilled as soon as its response ends.

Plain sampling at the temperature asked for, as `transformers_engine.py` does it. The draws hang on
what is decoded together, so a profile is not the same twice. A response's tokens are seen when the
step that made them is over; that is when they count as made.

Imports vLLM, so it is imported only where it was asked for.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stages.profile.engine import Answer, Finished, FinishReason, News, OnTokens, Request, Sampling
from stages.tables.errors import first_few, log
from stages.tokens.tokenizer import PromptTokenizer
from stages.tokens.vllm import Vllm

_ENDS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}  # all else: abort


@dataclass
class _Making:
    """A response being made."""

    request: Request
    prompt_tokens: int
    start_s: float
    ttft_s: float | None = None
    num_tokens: int = 0


@dataclass
class _LeftOut:
    """What the model's context has no room for."""

    prompts: dict[int, int] = field(default_factory=dict)  # tokens of a prompt, by prompt_id
    num_cut: int = 0  # responses

    def tell(self, room: int) -> None:
        """Say it, if there is any."""
        if self.prompts:
            log.warning(
                "%d prompts are left out, since they fill the %d tokens that the model takes "
                "(prompt_id %s, of up to %d tokens)",
                len(self.prompts), room, first_few(self.prompts), max(self.prompts.values()),
            )  # fmt: skip
        if self.num_cut:
            log.warning(
                "%d responses were cut before --max-response-tokens, since they filled the %d "
                "tokens that the model takes, prompt included; give a smaller cap",
                self.num_cut, room,
            )  # fmt: skip


class VllmEngine:
    """A causal language model in vLLM, with its tokenizer."""

    def __init__(
        self,
        name: str,
        slots: int,
        uses_template: bool = True,
        seed: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Load a directory, or a name of the model hub.

        Raises:
            AspError: It holds no tokenizer or no model that can be loaded.
        """
        self._tokenizer = PromptTokenizer(name, "--model", uses_template)
        self._vllm = Vllm(name, "--model", slots, seed)
        self._slots = slots
        self._clock = clock

    @property
    def model(self) -> str:
        """The name without where it lies."""
        return self._tokenizer.name

    def describe(self) -> dict[str, Any]:
        """Precision and template; vLLM does not show its weights, so it has no hash of them."""
        return {
            "engine": "vllm",
            "dtype": self._vllm.dtype,
            "chat_template": self._tokenizer.has_template,
            "tokenizer_sha256": self._tokenizer.digest(),
        }

    def answer(
        self, requests: Iterable[Request], sampling: Sampling, on_tokens: OnTokens
    ) -> Generator[News, None, None]:
        """Answer every request; a prompt that fills the model's context is left out, and told."""
        left = iter(requests)
        making: dict[int, _Making] = {}
        left_out = _LeftOut()
        try:
            while (unfit := self._fill(left, making, sampling)) or making:
                if unfit:
                    left_out.prompts |= {request.prompt_id: size for request, size in unfit}
                    yield [(request, None) for request, _ in unfit]
                if making and (finished := self._step(making, on_tokens)):
                    left_out.num_cut += sum(
                        answer.finish_reason == "length"
                        and answer.response_tokens < sampling.max_response_tokens
                        for _, answer in finished
                    )
                    yield finished
        finally:
            self._vllm.drop(making)
            left_out.tell(self._vllm.room)

    def _fill(
        self,
        left: Iterator[Request],
        making: dict[int, _Making],
        sampling: Sampling,
    ) -> list[tuple[Request, int]]:
        """Begin responses in free slots; those without room, with the tokens of their prompts."""
        unfit = []
        while len(making) < self._slots and (request := next(left, None)) is not None:
            ids = self._tokenizer.encode_prompt(request.prompt)
            if len(ids) >= self._vllm.room:
                unfit.append((request, len(ids)))
                continue
            number = self._vllm.add(ids, sampling.temperature, sampling.max_response_tokens)
            making[number] = _Making(request, len(ids), self._clock())
        return unfit

    def _step(self, making: dict[int, _Making], on_tokens: OnTokens) -> Finished:
        """Decode once; give back what has ended."""
        finished: list[tuple[Request, Answer]] = []
        concurrency = len(making)
        for made in self._vllm.step():
            response, elapsed_s = making[made.number], self._clock() - making[made.number].start_s
            response.num_tokens += len(made.token_ids)
            response.ttft_s = response.ttft_s or elapsed_s
            on_tokens(len(made.token_ids))
            if made.end is not None:
                answer = Answer(
                    response_tokens=response.num_tokens,
                    finish_reason=_ENDS.get(made.end, "abort"),
                    prompt_tokens=response.prompt_tokens,
                    latency_s=elapsed_s,
                    ttft_s=response.ttft_s,
                    concurrency=concurrency,
                )
                finished.append((making.pop(made.number).request, answer))
        return finished
