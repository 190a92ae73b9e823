"""A real server: `transformers serve` with the tiny model, and the traps in which it catches us."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

Asp = Callable[..., Any]


@pytest.fixture(scope="module")
def served(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, Path]]:
    """A server's address, and two models there: one that samples, and one that is greedy."""
    folder = tmp_path_factory.mktemp("served")
    models = []
    for name, do_sample in (("sampling", True), ("greedy", False)):
        shutil.copytree(tiny_model, folder / name)
        settings = json.loads((folder / name / "generation_config.json").read_text())
        kept = {"eos_token_id": settings["eos_token_id"], "do_sample": do_sample, "top_k": 0}
        (folder / name / "generation_config.json").write_text(json.dumps(kept))
        models.append(folder / name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", "--device", "cpu"]
    log = (folder / "log").open("w+")
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=log, stderr=subprocess.STDOUT,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        _wait_for(url, server, folder / "log")
        for model in models:
            httpx.post(f"{url}/load_model", json={"model": str(model)}, timeout=120).read()
        yield url, models[0], models[1]
    finally:
        server.terminate()
        server.wait()
        log.close()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(1200):
        assert server.poll() is None, log.read_text()
        try:
            httpx.get(f"{url}/health")
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("it does not start")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.parquet"
    texts = [f"What is {n} plus {n}?" for n in range(6)]
    pl.DataFrame({"prompt": [[{"role": "user", "content": text}] for text in texts]}).write_parquet(
        path
    )
    return path


def run(asp: Asp, prompts: Path, url: str, model: Path, *flags: object) -> Any:
    return asp(
        "profile", prompts, "--endpoint", url, "--model", model, "--max-response-tokens", 24,
        "-o", prompts.parent / "o.parquet", *flags,
    )  # fmt: skip


def test_lengths_are_those_of_the_model(
    asp: Asp, served: tuple[str, Path, Path], prompts: Path
) -> None:
    url, sampling, _ = served
    outcome = run(asp, prompts, url, sampling, "--concurrency", 4, "--samples-per-prompt", 4)
    assert outcome.code == 0, outcome.stderr
    line = r"asp: 24 responses to 6 of 6 prompts, [0-9.]+% of them at the cap"
    assert re.fullmatch(line, outcome.stderr.splitlines()[-1])
    assert "warning" not in outcome.stderr
    frame = pl.read_parquet(prompts.parent / "o.parquet")
    assert frame["model"].unique().to_list() == ["sampling"]
    assert frame["response_tokens"].is_between(1, 24).all()
    is_capped = frame["finish_reason"].cast(pl.String) == "length"
    assert is_capped.to_list() == (frame["response_tokens"] == 24).to_list()
    assert (
        frame.group_by("prompt_id")
        .agg(pl.col("response_tokens").n_unique())["response_tokens"]
        .max()
        > 1
    )  # type: ignore[operator]
    assert frame["latency_s"].min() > 0  # type: ignore[operator]
    assert frame["concurrency"].is_between(1, 4).all()


def test_prompts_are_as_long_as_for_the_local_engine(
    asp: Asp, served: tuple[str, Path, Path], prompts: Path
) -> None:
    url, _, greedy = served
    flags = ("--samples-per-prompt", 1, "--temperature", 0)
    assert run(asp, prompts, url, greedy, *flags).code == 0
    there = pl.read_parquet(prompts.parent / "o.parquet")
    local = ("--model", greedy, "--max-response-tokens", 24, *flags)
    assert asp("profile", prompts, *local, "-o", prompts.parent / "local.parquet").code == 0
    same = ["prompt_id", "prompt_tokens", "response_tokens", "finish_reason", "prompt_hash"]
    assert there.select(same).equals(pl.read_parquet(prompts.parent / "local.parquet").select(same))


def test_its_traps_are_told(asp: Asp, served: tuple[str, Path, Path], prompts: Path) -> None:
    """It decodes greedily at any temperature, and returns one response whatever `n` says."""
    url, _, greedy = served
    flags = ("--samples-per-prompt", 3, "--samples-per-request", 3, "--tokenizer", greedy)
    outcome = run(asp, prompts, url, greedy, *flags)
    assert outcome.code == 0, outcome.stderr
    assert "warning: the server returns 1 of 2 responses asked for at once" in outcome.stderr
    assert "warning: all responses to one prompt are the same text, for each" in outcome.stderr
    assert "asp: 18 responses to 6 of 6 prompts" in outcome.stderr


def test_completions_get_the_bare_text(
    asp: Asp, served: tuple[str, Path, Path], prompts: Path
) -> None:
    url, sampling, _ = served
    flags = ("--samples-per-prompt", 1, "--chat-template", "none")
    assert run(asp, prompts, url, sampling, *flags).code == 0
    bare = pl.read_parquet(prompts.parent / "o.parquet")
    assert run(asp, prompts, url, sampling, *flags[:2], "--force").code == 0
    chat = pl.read_parquet(prompts.parent / "o.parquet")
    assert (bare["prompt_tokens"] < chat["prompt_tokens"]).all()


def test_another_model_is_refused_in_one_line(
    asp: Asp, served: tuple[str, Path, Path], prompts: Path
) -> None:
    url, sampling, _ = served
    outcome = run(asp, prompts, url, sampling.parent / "other")
    assert outcome.code == 1
    last = outcome.stderr.splitlines()[-1]
    assert f"{url}/v1: serves {sampling}, " in last
    assert "not --model" in last
