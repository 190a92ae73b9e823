"""Profiles of a fake server, with little patience."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stages.profile.endpoint.settings import EndpointSettings, Patience
from stages.profile.from_model import ModelConfig, run_model
from tests.stages.profile.endpoint.fake_server import CAP

PATIENCE = Patience(outage_s=5.0, first_wait_s=0.01, longest_wait_s=0.05)
NUM_PROMPTS, NUM_SAMPLES = 10, 3
Run = Callable[..., pl.DataFrame]


@pytest.fixture
def profile(tmp_path: Path) -> Run:
    """`profile(server.url, ..., concurrency=2)`: the table of 10 prompts, 3 samples each."""
    prompts = tmp_path / "prompts.parquet"
    texts = [f"What is {n} plus {n}?" for n in range(NUM_PROMPTS)]
    pl.DataFrame({"prompt": texts}).write_parquet(prompts)

    def run(
        *urls: str,
        name: str = "p",
        config: Any = None,
        patience: Patience = PATIENCE,
        **changes: Any,
    ) -> pl.DataFrame:
        held = {"concurrency": 4, "request_timeout_s": 5.0, "sends_seeds": True}
        settings = EndpointSettings(urls, patience=patience, **(held | changes))
        asked = {
            "max_response_tokens": CAP, "rollouts_per_prompt": NUM_SAMPLES, "endpoint": settings,
        } | (config or {})  # fmt: skip
        output = tmp_path / f"{name}.parquet"
        run_model(str(prompts), str(output), ModelConfig("m", **asked))
        return pl.read_parquet(output)

    return run


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What the `asp` logger says, which does not propagate once the command line set it up."""
    asp = logging.getLogger("asp")
    asp.addHandler(caplog.handler)
    asp.setLevel(logging.INFO)
    yield lambda: list(dict.fromkeys(record.getMessage() for record in caplog.records))
    asp.removeHandler(caplog.handler)
