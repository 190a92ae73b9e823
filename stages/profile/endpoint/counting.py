"""How many tokens has a response?

As the server's usage says where that can be right: it is of one response, no larger than the cap,
and no smaller than what the tokenizer, where there is one, counts in the text. Of several responses
to one request usage tells the sum alone: they are counted by the tokenizer, and usage is held
against the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from stages.profile.endpoint.wire import Choice, Reply
from stages.profile.engine import FinishReason, TokensFrom, Unanswered
from stages.profile.values import reason_of
from stages.tables.errors import Once

_NUM_COMPARED = 32  # replies; a server counts all of them in the same way
_LOST = "\ufffd"  # stands for bytes that are no text, and counts more than they did
_TOLERANCE = 0.1  # text does not tell how it was cut into tokens
_TOLERATED_TOKENS = 2


class Tokenizer(Protocol):
    """Counts tokens (`stages/tokens`)."""

    @property
    def name(self) -> str:
        """For messages."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, no special ones added."""


class Counted(NamedTuple):
    """Tokens of the choices of a reply, the end tokens included, and who counted them."""

    tokens: list[int]
    tokens_from: TokensFrom


@dataclass
class Counting:
    """Counts the tokens of replies, and says where usage is not to be trusted.

    Args:
        cap: Tokens of a response asked for.
        tokenizer: None: usage has to be right.
    """

    cap: int
    tokenizer: Tokenizer | None
    _num_compared: int = 0
    _once: Once = field(default_factory=Once)

    def count(self, reply: Reply) -> Counted:
        """Count the tokens of each choice.

        Raises:
            Unanswered: Usage cannot be right, and there is no tokenizer.
        """
        if len(reply.choices) > 1:
            return Counted(self._of_several(reply), "text")
        usage, text = reply.completion_tokens, reply.choices[0].text
        wrong = self._why_wrong(usage, text)
        is_comparable = self.tokenizer is not None and _LOST not in text
        if wrong is None and is_comparable and self._num_compared < _NUM_COMPARED:
            self._num_compared += 1
            (counted,) = self._counted(reply.choices)
            if _is_fewer(usage or 0, counted):
                wrong = f"says {usage} tokens of a text of {counted}"
                self._num_compared = 0  # every one is looked at from here on
        if wrong is None:
            assert usage is not None, "else it is wrong"
            return Counted([usage], "count")
        if self.tokenizer is None:
            raise Unanswered(
                f"the server's usage {wrong}; give --tokenizer DIR_OR_NAME to count the text"
            )
        self._once.warn("the server's usage %s; such responses are counted from the text", wrong)
        return Counted(self._counted(reply.choices), "text")

    def _of_several(self, reply: Reply) -> list[int]:
        counted, usage = self._counted(reply.choices), reply.completion_tokens
        if usage is not None and _is_fewer(usage, sum(counted)):
            one = any(not _is_fewer(n, usage) and not _is_fewer(usage, n) for n in counted)
            what = "counts one choice only" if one else "counts too few tokens"
            self._once.warn(
                "the server's usage %s: %d tokens for %d responses that have %d; all are counted "
                "from the text", what, usage, len(counted), sum(counted),
            )  # fmt: skip
        elif usage is not None and _is_fewer(sum(counted), usage):
            self._once.warn(
                "the server's usage says %d tokens for %d responses whose text has %d: it hides "
                "some of it, or --tokenizer is another model's; give --samples-per-request 1 to "
                "take the server's count", usage, len(counted), sum(counted),
            )  # fmt: skip
        return counted

    def _why_wrong(self, usage: int | None, text: str) -> str | None:
        if usage is None:
            return "says no completion_tokens"
        if usage > self.cap:
            return f"says {usage} tokens where --max-response-tokens is {self.cap}"
        if usage == 0 and text:
            return "says 0 tokens of a text that has some"
        return None

    def _counted(self, choices: Sequence[Choice]) -> list[int]:
        assert self.tokenizer is not None, "several samples a request need one"
        counts = self.tokenizer.count([choice.text for choice in choices])
        return [self._whole(*each) for each in zip(choices, counts, strict=True)]

    def _whole(self, choice: Choice, counted: int) -> int:
        """With the end token; what was cut about at the cap, was cut at the cap."""
        reason = finish_reason(choice.finish_reason, counted, self.cap)
        if reason == "length" and not _is_fewer(counted, self.cap):
            return self.cap
        return min(counted + (reason == "stop"), self.cap)


def finish_reason(said: str | None, tokens: int, cap: int) -> FinishReason:
    """Stop, length or abort, of a server's word; of none, whether it has reached the cap."""
    if said is None:
        return "length" if tokens >= cap else "stop"
    return reason_of(said) or "abort"


def _is_fewer(usage: int, counted: int) -> bool:
    return usage < counted * (1 - _TOLERANCE) - _TOLERATED_TOKENS
