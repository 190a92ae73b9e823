"""Does a server do what it was asked to?

What it does otherwise is said once, in plain words, as soon as it shows: the user may want to stop.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from stages.profile.endpoint.wire import Choice, Reply
from stages.profile.engine import Answer, Request
from stages.tables.errors import Once, log

_ENOUGH_PROMPTS = 8  # of which every one has the same text twice: no chance


@dataclass
class Judgement:
    """What one run has seen.

    Args:
        model: Name that was asked for.
        temperature: Asked for.
        cap: Tokens of a response asked for.
    """

    model: str
    temperature: float
    cap: int
    _once: Once = field(default_factory=Once)
    _first_texts: dict[int, str] = field(default_factory=dict)
    _repeated: set[int] = field(default_factory=set)  # prompts of which all texts are the same
    _has_chance: bool = False
    _num_cut: int = 0

    def add(self, requests: Sequence[Request], reply: Reply, answers: Sequence[Answer]) -> None:
        """See one reply: the requests it was asked for, and the answers made of it."""
        if len(reply.choices) < len(requests):
            self._once.warn(
                "the server returns %d of %d responses asked for at once (it ignores `n`); from "
                "here on each is asked for by itself", len(reply.choices), len(requests),
            )  # fmt: skip
        if reply.model and not reply.model.startswith(self.model):
            self._once.warn("--model %s: the server answers as %r", self.model, reply.model)
        for request, choice, answer in zip(requests, reply.choices, answers, strict=False):
            self._see_text(request, choice)
            if answer.finish_reason == "length" and answer.response_tokens < self.cap:
                self._num_cut += 1
                self._once.warn(
                    "a response to prompt_id %d was cut at %d tokens, before --max-response-tokens "
                    "%d: the server's context is full; serve the model with a longer one, or give "
                    "a smaller cap", request.prompt_id, answer.response_tokens, self.cap,
                )  # fmt: skip

    def end(self) -> None:
        """Say what shows in the whole run only."""
        if len(self._repeated) > 1:
            self._say_repeated()
        if self._num_cut > 1:
            log.warning("%d responses were cut by the server's context", self._num_cut)

    def _see_text(self, request: Request, choice: Choice) -> None:
        if self._has_chance or self.temperature == 0:
            return
        if request.prompt_id not in self._first_texts:
            self._first_texts[request.prompt_id] = choice.text
        elif self._first_texts[request.prompt_id] == choice.text:
            self._repeated.add(request.prompt_id)
            if len(self._repeated) >= _ENOUGH_PROMPTS:
                self._say_repeated()
        else:
            self._has_chance = True
            self._first_texts.clear()
            self._repeated.clear()

    def _say_repeated(self) -> None:
        self._once.warn(
            "all responses to one prompt are the same text, for each of %d prompts, though "
            "--temperature is %g: the server decodes greedily or with one seed (transformers serve "
            "does unless the model's generation_config has do_sample); the profile says nothing of "
            "chance", len(self._repeated), self.temperature,
        )  # fmt: skip
