"""The two ways of asking in the OpenAI protocol: a conversation, or a text to go on with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stages.profile.endpoint.client import Failure
from stages.profile.engine import Sampling
from stages.profile.values import response_text
from stages.tables.prompts import canonical_text

PLAIN_SAMPLING: dict[str, dict[str, float]] = {
    "vllm": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "sglang": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "llamacpp": {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
}
"""By `owned_by` of GET /v1/models: what turns off, in a server's own words, that it samples as the
model recommends for chatting. RL training samples without it. Others may refuse such words."""


@dataclass(frozen=True)
class Choice:
    """One response of a reply."""

    text: str
    finish_reason: str | None  # in the server's words


@dataclass(frozen=True)
class Reply:
    """What came of one request."""

    choices: tuple[Choice, ...]
    prompt_tokens: int | None
    completion_tokens: int | None  # of all choices, if it is right
    model: str | None


@dataclass(frozen=True)
class Wire:
    """How one model is asked: chat, where the server applies the template, or bare text."""

    model: str
    is_chat: bool
    sampling: Sampling

    @property
    def path(self) -> str:
        """Where requests go, below /v1."""
        return "/chat/completions" if self.is_chat else "/completions"

    def body(
        self, prompt: Any, num_samples: int, extras: Mapping[str, float], seed: int | None
    ) -> dict[str, Any]:
        """The request for responses to one prompt; a seed only where one is wanted."""
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.sampling.max_response_tokens,
            "temperature": self.sampling.temperature,
            "top_p": 1.0,
            **extras,
        }
        if not self.is_chat:
            body["prompt"] = canonical_text(prompt)
        elif isinstance(prompt, str):
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            body["messages"] = [
                {k: v for k, v in message.items() if v is not None} for message in prompt
            ]
        if num_samples > 1:
            body["n"] = num_samples
        if seed is not None:
            body["seed"] = seed
        return body

    def read(self, said: Any) -> Reply:
        """The reply in a server's JSON.

        Raises:
            Failure: It is none.
        """
        choices = said.get("choices") if isinstance(said, dict) else None
        if not isinstance(choices, list) or not choices:
            raise Failure("an answer without choices")
        usage = said.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        return Reply(
            tuple(self._choice(choice) for choice in choices),
            _whole(counts.get("prompt_tokens")),
            _whole(counts.get("completion_tokens")),
            said.get("model") if isinstance(said.get("model"), str) else None,
        )

    def _choice(self, said: Any) -> Choice:
        held = said if isinstance(said, dict) else {}
        text = response_text([held.get("message")]) if self.is_chat else held.get("text")
        if not isinstance(text, str):
            raise Failure("an answer with a choice without text")
        reason = held.get("finish_reason")
        return Choice(text, reason if isinstance(reason, str) else None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
