"""What a server does otherwise than it was asked to is said once, in plain words."""

from collections.abc import Callable

import pytest

from stages.profile.endpoint.judgement import Judgement
from stages.profile.endpoint.wire import Choice, Reply
from stages.profile.engine import Answer, Request

Words = Callable[[], list[str]]


def see(judgement: Judgement, prompt_id: int, *texts: str, asked: int | None = None) -> None:
    requests = [Request(prompt_id, "?", sample) for sample in range(asked or len(texts))]
    answers = [Answer(len(text), "stop") for text in texts]
    reply = Reply(tuple(Choice(text, "stop") for text in texts), 3, 9, "m")
    judgement.add(requests, reply, answers)


def test_equal_texts_of_every_prompt(said: Words) -> None:
    judgement = Judgement("m", 0.7, 64)
    for prompt_id in range(7):
        see(judgement, prompt_id, f"answer {prompt_id}", f"answer {prompt_id}")
    assert said() == []
    see(judgement, 7, "answer", "answer")
    see(judgement, 8, "answer", "answer")
    judgement.end()
    (words,) = said()
    assert "the same text, for each of 8 prompts, though --temperature is 0.7" in words


def test_in_few_prompts_they_are_told_at_the_end(said: Words) -> None:
    judgement = Judgement("m", 1.0, 64)
    see(judgement, 0, "a", "a")
    judgement.end()
    assert said() == []
    see(judgement, 1, "b", "b")
    judgement.end()
    assert "for each of 2 prompts" in said()[0]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_one_prompt_that_differs_clears_a_server_and_greed_is_no_fault(
    said: Words, temperature: float
) -> None:
    judgement = Judgement("m", temperature, 64)
    for prompt_id in range(20):
        see(judgement, prompt_id, "same", "other" if prompt_id == 3 and temperature else "same")
    judgement.end()
    assert said() == []


def test_fewer_responses_than_were_asked_for(said: Words) -> None:
    judgement = Judgement("m", 1.0, 64)
    see(judgement, 0, "a", asked=4)
    see(judgement, 1, "b", asked=4)
    (words,) = said()
    assert words.startswith("the server returns 1 of 4 responses asked for at once (it ignores `n`")


def test_a_context_that_is_full(said: Words) -> None:
    judgement = Judgement("m", 1.0, 64)
    for tokens, reason in [(64, "length"), (40, "length"), (20, "stop"), (41, "length")]:
        request = Request(5, "?", 0)
        reply = Reply((Choice("a", reason),), 3, tokens, "m")
        judgement.add([request], reply, [Answer(tokens, reason)])  # type: ignore[arg-type]
    judgement.end()
    cut, number = said()
    assert cut.startswith("a response to prompt_id 5 was cut at 40 tokens, before --max-response-t")
    assert number == "2 responses were cut by the server's context"


@pytest.mark.parametrize(("model", "is_told"), [("m", False), ("m-2026", False), ("other", True)])
def test_the_name_that_answers(said: Words, model: str, is_told: bool) -> None:
    judgement = Judgement("m", 1.0, 64)
    reply = Reply((Choice("a", "stop"),), 3, 1, model)
    judgement.add([Request(0, "?", 0)], reply, [Answer(1, "stop")])
    assert said() == (["--model m: the server answers as 'other'"] if is_told else [])
