"""A vLLM server on the CPU with a pretrained chat model; `make test-vllm` sets both up."""

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

pytestmark = [pytest.mark.slow, pytest.mark.vllm]
Asp = Callable[..., Any]
CONTEXT = 2048
CAP = 384


class Vllm:
    """A server process on a port of its own."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model = model
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._log = folder / "vllm.log"

    def start(self) -> None:
        command = [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(self.model), "--host", "127.0.0.1", "--port", str(self._port),
            "--dtype", "float32", "--max-model-len", str(CONTEXT), "--max-num-seqs", "64",
            "--enforce-eager",
        ]  # fmt: skip
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )
        for _ in range(1200):
            assert self._process.poll() is None, self._log.read_text()[-4000:]
            try:
                if httpx.get(f"{self.url}/health").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.5)
        raise AssertionError(self._log.read_text()[-4000:])

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


@pytest.fixture(scope="module")
def vllm(chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    server = Vllm(chat_model, tmp_path_factory.mktemp("vllm"))
    server.start()
    yield server
    server.stop()


def run(asp: Asp, vllm: Vllm, prompts: Path, output: Path, *flags: object) -> Any:
    return asp(
        "profile", prompts, "--endpoint", vllm.url, "--model", vllm.model,
        "--max-response-tokens", CAP, "--temperature", 0.8, "-o", output, *flags,
    )  # fmt: skip


def test_64_prompts_with_4_samples(asp: Asp, vllm: Vllm, sample_data: Path, tmp_path: Path) -> None:
    """Real lengths: of prompts, and by chance within a prompt."""
    prompts, output = sample_data / "profile_prompts.parquet", tmp_path / "o.parquet"
    start_s = time.perf_counter()
    outcome = run(asp, vllm, prompts, output, "--num-prompts", 64, "--samples-per-prompt", 4)
    elapsed_s = time.perf_counter() - start_s
    assert outcome.code == 0, outcome.stderr
    frame = pl.read_parquet(output)
    assert frame.group_by("prompt_id").len()["len"].to_list() == [4] * 64
    assert frame["response_tokens"].is_between(1, CAP).all()
    of_prompt = frame.group_by("prompt_id").agg(pl.col("response_tokens").n_unique())
    assert (of_prompt["response_tokens"] > 1).mean() > 0.3  # type: ignore[operator]
    tokens = frame["response_tokens"]
    quartiles = [tokens.quantile(q) for q in (0.1, 0.5, 0.9)]
    print(f"\n{tokens.sum() / elapsed_s:.0f} tokens/s, {elapsed_s:.0f} s, {quartiles}")


def test_several_samples_a_request_count_as_one_does(
    asp: Asp, vllm: Vllm, sample_data: Path, tmp_path: Path
) -> None:
    prompts, output = sample_data / "profile_prompts.parquet", tmp_path / "o.parquet"
    flags = ("--num-prompts", 8, "--samples-per-prompt", 4, "--samples-per-request", 4)
    outcome = run(asp, vllm, prompts, output, *flags, "--tokenizer", vllm.model)
    assert outcome.code == 0, outcome.stderr
    assert "warning" not in outcome.stderr
    assert len(pl.read_parquet(output)) == 32


def test_a_server_that_is_stopped_and_started_again(
    asp: Asp, vllm: Vllm, sample_data: Path, tmp_path: Path
) -> None:
    prompts, output = sample_data / "profile_prompts.parquet", tmp_path / "o.parquet"
    vllm.stop()
    outcome = run(asp, vllm, prompts, output, "--num-prompts", 4, "--samples-per-prompt", 1)
    assert outcome.code == 1
    assert "connection refused; start the server" in outcome.stderr
    vllm.start()
    outcome = run(asp, vllm, prompts, output, "--num-prompts", 4, "--samples-per-prompt", 1)
    assert outcome.code == 0, outcome.stderr
