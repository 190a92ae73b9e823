"""What is sent to a server, word by word, and what is read of its reply."""

import json
from typing import Any

import pytest

from stages.profile.endpoint.client import Failure
from stages.profile.endpoint.wire import PLAIN_SAMPLING, Choice, Reply, Wire
from stages.profile.engine import Sampling
from tests.stages.profile.endpoint.fake_server import FakeServer, Said

SAMPLING = Sampling(0.7, 64)
CHAT, TEXT = Wire("m", True, SAMPLING), Wire("m", False, SAMPLING)
MESSAGES = [{"role": "system", "content": "Add.", "name": None}, {"role": "user", "content": "1"}]
COMMON = {"model": "m", "max_tokens": 64, "temperature": 0.7, "top_p": 1.0}


def test_bodies() -> None:
    user = [{"role": "user", "content": "What?"}]
    assert CHAT.body("What?", 1, {}, None) == COMMON | {"messages": user}
    told = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1"}]
    assert CHAT.body(MESSAGES, 4, {"top_k": -1}, 5) == COMMON | {
        "messages": told, "n": 4, "top_k": -1, "seed": 5,
    }  # fmt: skip
    assert TEXT.body(MESSAGES, 1, {}, None) == COMMON | {"prompt": "system: Add.\nuser: 1"}


def test_replies() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 9}
    thought = {"content": "three", "reasoning_content": "one, two, "}
    chat = {"choices": [{"message": thought, "finish_reason": "stop"}], "usage": usage}
    assert CHAT.read(chat | {"model": "m"}) == Reply(
        (Choice("one, two, three", "stop"),), 3, 9, "m"
    )
    empty = {"choices": [{"message": {"content": None}}], "usage": {"completion_tokens": "9"}}
    assert CHAT.read(empty) == Reply((Choice("", None),), None, None, None)
    assert TEXT.read({"choices": [{"text": "a"}, {"text": "b"}]}) == Reply(
        (Choice("a", None), Choice("b", None)), None, None, None
    )


@pytest.mark.parametrize("said", [None, [], {}, {"choices": []}, {"choices": [None]}])
def test_what_is_no_reply_is_asked_for_again(said: Any) -> None:
    with pytest.raises(Failure):
        CHAT.read(said)


@pytest.mark.parametrize("owner", ["vllm", "sglang", "llamacpp", "somebody"])
def test_a_server_is_told_to_sample_plainly_in_its_own_words(profile: Any, owner: str) -> None:
    models = Said(json.dumps({"data": [{"id": "m", "owned_by": owner}]}).encode())
    with FakeServer(models=models) as server:
        profile(server.url, sends_seeds=False)
    known = {"messages", *COMMON}
    for asked in server.asked:
        extras = {name: value for name, value in asked.items() if name not in known}
        assert extras == PLAIN_SAMPLING.get(owner, {})
