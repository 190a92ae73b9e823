"""Servers are asked for no more than the tokens allow, and what is under way is finished."""

from collections.abc import Callable
from typing import Any

import polars as pl

from tests.stages.profile.endpoint.fake_server import CAP, FakeServer

Run = Callable[..., pl.DataFrame]


def test_it_is_overrun_by_no_more_than_what_is_in_flight(profile: Run) -> None:
    with FakeServer() as server:
        whole = profile(server.url, name="whole")
    max_tokens = int(whole["response_tokens"].sum()) // 2
    config: dict[str, Any] = {"max_profile_tokens": max_tokens}
    with FakeServer() as server:
        table = profile(server.url, concurrency=3, config=config)
    spent = table["response_tokens"].sum()
    assert max_tokens <= spent <= max_tokens + 3 * CAP
    assert len(table) == server.num_answered  # nothing that was asked for is lost
    assert len(table) < len(whole)
