"""A server that misbehaves: no response lost, none asked for twice, an end, and words for it."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from stages.tables.errors import AspError
from tests.stages.profile.endpoint.conftest import PATIENCE
from tests.stages.profile.endpoint.fake_server import (
    Behaviour,
    FakeServer,
    Json,
    Said,
    answer,
    error,
)

NUM_RESPONSES = 30
LENGTHS = ["prompt_id", "sample_index", "response_tokens", "finish_reason", "prompt_tokens"]
LITTLE = replace(PATIENCE, outage_s=0.3)
Run = Callable[..., pl.DataFrame]
Words = Callable[[], list[str]]


@pytest.fixture
def whole(profile: Run) -> pl.DataFrame:
    """The table that a sound server gives."""
    with FakeServer() as server:
        table = profile(server.url, name="whole")
    assert server.num_answered == NUM_RESPONSES
    return table.select(LENGTHS)


def once(fault: Said) -> Behaviour:
    """Every prompt's every sample meets the fault at its first try."""
    seen = set()

    def behave(number: int, asked: Json) -> Said:
        if asked["seed"] in seen:
            return answer(asked)
        seen.add(asked["seed"])
        return fault

    return behave


def at_first(num_requests: int, fault: Said) -> Behaviour:
    return lambda number, asked: fault if number < num_requests else answer(asked)


RIGHT = answer({"model": "m", "max_tokens": 9, "messages": []})


@pytest.mark.parametrize(
    ("behave", "changes"),
    [
        (once(error(500)), {}),
        (once(error(503, "", "Retry-After: 0.02")), {}),
        (once(error(429)), {}),
        (at_first(6, error(429, "slow down", "Retry-After: 0.1")), {}),
        (at_first(1, replace(RIGHT, wait_s=60)), {"request_timeout_s": 1.5}),
        (at_first(1, replace(RIGHT, drip_s=0.05)), {"request_timeout_s": 1.5}),
        (at_first(1, error(504, "the gateway is tired")), {}),
        (once(Said(b'{"choices": [')), {}),
        (once(Said(b"<html>busy</html>")), {}),
        (once(Said(b"[]")), {}),
        (once(Said(b'{"choices": [{"index": 0}]}')), {}),
        (once(replace(RIGHT, cut_at=0)), {}),
        (once(replace(RIGHT, cut_at=40)), {}),
        (once(replace(RIGHT, cut_at=40, is_chunked=True)), {}),
        (lambda n, asked: replace(answer(asked), is_chunked=True), {}),
        (lambda n, asked: Said(b"", kills=0.1) if n in (7, 19) else answer(asked), {}),
        (lambda n, asked: Said(b"", kills=0.1) if n == 5 else answer(asked), {"concurrency": 1}),
    ],
    ids=[
        "500", "503 with Retry-After", "429", "429 with Retry-After", "hangs", "drips", "504",
        "cut JSON", "HTML", "not an object", "no text", "dropped before the body",
        "dropped in the body", "dropped in a chunk", "chunked", "dies twice and comes back",
        "dies and comes back, one at once",
    ],
)  # fmt: skip
def test_what_passes_costs_no_response_and_no_second_one(
    profile: Run, whole: pl.DataFrame, behave: Behaviour, changes: dict[str, Any]
) -> None:
    with FakeServer(behave) as server:
        table = profile(server.url, **changes)
    assert table.select(LENGTHS).equals(whole)
    assert server.num_answered == NUM_RESPONSES


@pytest.mark.parametrize("seed", range(3))
def test_faults_by_chance(profile: Run, whole: pl.DataFrame, seed: int) -> None:
    rng = np.random.default_rng(seed)
    faults = [error(500), error(429), Said(b"{"), replace(RIGHT, cut_at=20)]

    def behave(number: int, asked: Json) -> Said:
        drawn = int(rng.integers(12))
        return faults[drawn] if drawn < len(faults) else answer(asked)

    with FakeServer(behave) as one, FakeServer(behave) as two:
        table = profile(one.url, two.url, concurrency=8)
    assert table.select(LENGTHS).equals(whole)
    assert one.num_answered + two.num_answered == NUM_RESPONSES


def test_a_server_is_left_alone_as_long_as_it_says(profile: Run) -> None:
    with FakeServer(at_first(1, error(429, "slow down", "Retry-After: 0.3"))) as server:
        profile(server.url, concurrency=1)
    assert server.asked_at_s[1] - server.asked_at_s[0] >= 0.3


def test_a_dead_server_s_requests_go_to_the_others(
    profile: Run, whole: pl.DataFrame, said: Words
) -> None:
    dies = lambda number, asked: Said(b"", kills=60) if number == 4 else answer(asked)  # noqa: E731
    slow = lambda number, asked: replace(answer(asked), wait_s=0.1)  # noqa: E731
    with FakeServer(dies) as dying, FakeServer(slow) as living:
        table = profile(dying.url, living.url, patience=LITTLE)
    assert table.select(LENGTHS).equals(whole)
    assert dying.num_answered + living.num_answered == NUM_RESPONSES
    (given_up,) = [words for words in said() if "is given up" in words]
    assert given_up.startswith(f"--endpoint {dying.url}/v1: is given up (connection refused)")
    assert "its requests go to the others" in given_up


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Said(b"", kills=60), "connection refused"),
        (error(500, "the engine is dead"), "HTTP 500: the engine is dead"),
        (replace(RIGHT, wait_s=60), "no answer in 1 s"),
        (error(429, "out of quota", "Retry-After: 3600"), "HTTP 429: out of quota"),
    ],
    ids=["refuses connections", "answers 500", "hangs", "wants to be left alone for an hour"],
)
def test_death_ends_the_run_in_one_line_and_the_same_command_goes_on(
    profile: Run, whole: pl.DataFrame, tmp_path: Path, fault: Said, words: str
) -> None:
    dying = FakeServer(lambda n, asked: fault if n >= 12 else answer(asked))
    with dying as server, pytest.raises(AspError) as caught:
        profile(server.url, request_timeout_s=1.0, patience=LITTLE)
    pattern = (
        rf"--endpoint {re.escape(server.url)}/v1: is given up \({re.escape(words)}\); "
        rf"(\d+) responses are kept in {tmp_path}/p.parquet.journal; the same command goes on .*"
    )
    found = re.fullmatch(pattern, str(caught.value))
    assert found is not None, str(caught.value)
    num_kept = int(found[1])
    assert 9 <= num_kept <= 12  # those under way are lost with their connections
    assert not (tmp_path / "p.parquet").exists()
    with FakeServer() as another:
        table = profile(another.url, concurrency=8)
    assert table.select(LENGTHS).equals(whole)
    assert another.num_answered == NUM_RESPONSES - num_kept
    assert not (tmp_path / "p.parquet.journal").exists()


def test_one_request_that_never_succeeds_stops_the_run_when_all_others_are_kept(
    profile: Run, whole: pl.DataFrame
) -> None:
    def behave(number: int, asked: Json) -> Said:
        if "is 3 plus" in asked["messages"][0]["content"]:
            return replace(RIGHT, wait_s=60)
        return replace(answer(asked), wait_s=0.12)

    with FakeServer(behave) as server, pytest.raises(AspError) as caught:
        profile(server.url, request_timeout_s=1.0)
    line = str(caught.value)
    assert line.startswith("3 responses failed at every try (prompt_id 3), while others were ")
    assert "no answer in 1 s; give a longer --request-timeout" in line
    assert "27 responses are kept" in line
    with FakeServer() as server:
        assert profile(server.url).select(LENGTHS).equals(whole)
    assert server.num_answered == 3


def test_what_a_server_refuses_is_left_out_and_told(
    profile: Run, whole: pl.DataFrame, said: Words
) -> None:
    def behave(number: int, asked: Json) -> Said:
        is_long = "is 3 plus" in asked["messages"][0]["content"]
        return error(400, "context of 64 tokens exceeded") if is_long else answer(asked)

    with FakeServer(behave) as server:
        table = profile(server.url)
    assert table.select(LENGTHS).equals(whole.filter(pl.col("prompt_id") != 3))
    foretold, refused = (
        next(at for at, words in enumerate(said()) if part in words)
        for part in (
            "told from the first 9 responses: 30 responses take ",
            "refuses 1 prompts, which are left out (prompt_id 3): HTTP 400: context of 64",
        )
    )
    assert foretold < refused, "not only at the end"
    every = pytest.raises(AspError, match="no prompt can be answered")
    with FakeServer(lambda n, asked: error(422, "no")) as server, every:
        profile(server.url, name="none")


@pytest.mark.parametrize(
    ("server", "line"),
    [
        (FakeServer(lambda n, asked: error(404, "no such route")), "HTTP 404: no such route"),
        (
            FakeServer(lambda n, asked: error(307, "", "Location: https://elsewhere")),
            "HTTP 307: (empty); it points to https://elsewhere",
        ),
        (
            FakeServer(models=error(401, "wrong key: sk-secret")),
            "HTTP 401: wrong key: *** (with the API key sent; --api-key-variable)",
        ),
        (
            FakeServer(models=Said(b'{"data": [{"id": "large"}, {"id": "small"}]}')),
            "serves large, small, not --model m; give a name that it serves",
        ),
        (FakeServer(models=Said(b"<html>")), "malformed JSON: <html>; start the server, or mend"),
    ],
    ids=["no route", "moved", "wrong key", "another model", "no API"],
)  # fmt: skip
def test_what_no_patience_mends_is_told_at_once(
    profile: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: FakeServer, line: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with server, pytest.raises(AspError) as caught:
        profile(server.url)
    assert str(caught.value).startswith(f"--endpoint {server.url}/v1: {line}")
    assert len(server.asked) <= 4
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.parquet"]


def test_a_server_that_is_not_there(profile: Run, said: Words) -> None:
    with FakeServer() as gone:
        pass
    with pytest.raises(AspError, match="connection refused; start the server, or mend the addr"):
        profile(gone.url)
    with FakeServer() as living:
        profile(gone.url, living.url)
    assert living.num_answered == NUM_RESPONSES
    assert any("connection refused; its requests go to the others" in words for words in said())


def test_a_server_without_a_list_of_models_is_asked_all_the_same(
    profile: Run, whole: pl.DataFrame
) -> None:
    with FakeServer(models=error(404)) as server:
        assert profile(server.url).select(LENGTHS).equals(whole)


def test_the_key_goes_into_the_header_alone(
    profile: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Words
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret")
    faulty = at_first(3, error(500, "got sk-secret"))
    with FakeServer(faulty) as server:
        profile(server.url, key_variable="MY_KEY", concurrency=1)
    assert all("authorization: Bearer sk-secret" in head for head in server.heads)
    assert "sk-secret" not in str(server.asked)
    assert "sk-secret" not in " ".join(said())
    assert "HTTP 500: got ***" in " ".join(said())
    assert b"sk-secret" not in (tmp_path / "p.parquet").read_bytes()
    assert server.url.encode() not in (tmp_path / "p.parquet").read_bytes()
