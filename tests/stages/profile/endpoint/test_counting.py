"""Tokens of a response: usage where it can be right, else the text; by hand."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from stages.profile.endpoint.counting import Counting, finish_reason
from stages.profile.endpoint.wire import Choice, Reply
from stages.profile.engine import Unanswered

CAP = 64


@dataclass
class Words:
    """A token a word."""

    name: str = "words"

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def reply(usage: int | None, *words: int, reason: str = "stop") -> Reply:
    return Reply(tuple(Choice("word " * n, reason) for n in words), 3, usage, "m")


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        (reply(20, 19), [20]),  # with the end token
        (reply(40, 19), [40]),  # thinking that the server does not return
        (reply(1, 0), [1]),  # the end token alone
        (reply(64, 64, reason="length"), [64]),
        (reply(None, 19), [20]),
        (reply(0, 19), [20]),
        (reply(65, 19), [20]),
        (reply(10, 19), [20]),  # fewer than the text has
        (reply(62, 19, 39), [20, 40]),
        (reply(20, 19, 39), [20, 40]),
        (reply(None, 19, 64), [20, 64]),  # no response is longer than its cap
        (reply(None, 62, 67, reason="length"), [64, 64]),  # text does not tell how it was cut
        (reply(None, 50, reason="length"), [50]),  # a context was full
    ],
)
def test_usage_where_it_can_be_right_else_the_text(given: Reply, tokens: list[int]) -> None:
    assert Counting(CAP, Words()).count(given).tokens == tokens


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (reply(None, 19), "says no completion_tokens"),
        (reply(0, 19), "says 0 tokens of a text that has some"),
        (reply(65, 19), "says 65 tokens where --max-response-tokens is 64"),
    ],
)
def test_without_a_tokenizer_a_wrong_count_ends_the_run(given: Reply, words: str) -> None:
    with pytest.raises(Unanswered) as caught:
        Counting(CAP, None).count(given)
    assert f"usage {words}; give --tokenizer DIR_OR_NAME" in str(caught.value)
    assert Counting(CAP, None).count(reply(20, 19)) == ([20], "count")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (reply(20, 19, 39), "counts one choice only: 20 tokens for 2 responses that have 60"),
        (reply(9, 19, 39), "counts too few tokens: 9 tokens for 2 responses that have 60"),
        (reply(90, 19, 39), "says 90 tokens for 2 responses whose text has 60: it hides some"),
        (reply(10, 19), "says 10 tokens of a text of 20; such responses are counted from"),
    ],
)
def test_what_is_wrong_with_usage_is_said_once(
    given: Reply, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    counting = Counting(CAP, Words())
    with caplog.at_level("WARNING", logger="asp"):
        counting.count(given)
        counting.count(given)
    assert [words in record.getMessage() for record in caplog.records] == [True]


def test_bytes_that_are_no_text_are_not_held_against_usage() -> None:
    lost = Reply((Choice("\ufffd " * 30, "stop"),), 3, 10, "m")
    assert Counting(CAP, Words()).count(lost) == ([10], "count")


def test_reasons_in_words_of_servers() -> None:
    assert finish_reason("eos", 5, CAP) == "stop"
    assert finish_reason("max_tokens", 5, CAP) == "length"
    assert finish_reason("content_filter", 5, CAP) == "abort"
    assert (finish_reason(None, 5, CAP), finish_reason(None, 64, CAP)) == ("stop", "length")
