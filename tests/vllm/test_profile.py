"""`asp profile --engine vllm` with the pretrained chat model, beside transformers."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.vllm]
Asp = Callable[..., Any]
CAP = 96


def test_lengths_vary_and_the_end_token_counts(
    asp_process: Asp, chat_model: Path, sample_data: Path, tmp_path: Path
) -> None:
    output = tmp_path / "o.parquet"
    start_s = time.perf_counter()
    outcome = asp_process(
        "profile", sample_data / "profile_prompts.parquet", "--model", chat_model, "--engine",
        "vllm", "--batch-size", 48, "--num-prompts", 16, "--samples-per-prompt", 4,
        "--max-response-tokens", CAP, "--temperature", 0.8, "-o", output,
    )  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    frame = pl.read_parquet(output)
    assert frame.group_by("prompt_id").len()["len"].to_list() == [4] * 16
    tokens = frame["response_tokens"]
    assert tokens.is_between(1, CAP).all() and tokens.n_unique() > 8
    is_capped = frame["finish_reason"].cast(pl.String) == "length"
    assert is_capped.to_list() == (tokens == CAP).to_list()
    assert (frame["ttft_s"] <= frame["latency_s"]).all()
    assert frame["concurrency"].is_between(1, 48).all() and frame["concurrency"].max() == 48
    assert [path.name for path in tmp_path.iterdir()] == ["o.parquet"]
    print(f"\n{tokens.sum()} tokens, {time.perf_counter() - start_s:.0f} s with the start of vLLM")


def test_greedy_lengths_are_those_of_transformers(
    asp_process: Asp, chat_model: Path, tmp_path: Path
) -> None:
    """Same template, same end tokens, same precision."""
    prompts = tmp_path / "prompts.parquet"
    asked = ["Name a colour.", "Say hello.", "What is 2 + 3?", "Name the capital of France."]
    pl.DataFrame({"prompt": asked}).write_parquet(prompts)
    made = []
    for engine in ("transformers", "vllm"):
        output = tmp_path / f"{engine}.parquet"
        outcome = asp_process(
            "profile", prompts, "--model", chat_model, "--engine", engine, "--temperature", 0,
            "--max-response-tokens", CAP, "-o", output,
        )  # fmt: skip
        assert outcome.code == 0, outcome.stderr
        made.append(pl.read_parquet(output).select("prompt_tokens", "response_tokens").rows())
    assert made[0] == made[1]
    assert min(tokens for _, tokens in made[0]) < CAP


def test_prompts_that_fill_the_context_are_left_out_and_told(
    asp_process: Asp, chat_model: Path, tmp_path: Path
) -> None:
    prompts, output = tmp_path / "prompts.parquet", tmp_path / "o.parquet"
    pl.DataFrame({"prompt": ["word " * 9000, "Say hello."]}).write_parquet(prompts)
    flags = ("--model", chat_model, "--engine", "vllm", "--max-response-tokens", 8, "-o", output)
    outcome = asp_process("profile", prompts, *flags)
    assert outcome.code == 0, outcome.stderr
    assert "1 prompts are left out" in outcome.stderr and "prompt_id 0" in outcome.stderr
    assert set(pl.read_parquet(output)["prompt_id"]) == {1}
