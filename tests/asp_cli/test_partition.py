"""The cost model and the memory limit through the command line; pairs of flags that are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

Run = Callable[..., Any]
Make = Callable[..., pl.DataFrame]
COSTS = {
    "step_seconds": 0.5, "sequence_seconds": 0.25, "prefill_seconds": 0.125, "kv_seconds": 0.0,
}  # fmt: skip


@pytest.fixture
def lengths(tmp_path: Path, make_lengths: Make) -> Path:
    path = tmp_path / "lengths.parquet"
    make_lengths(64, sigma=0.0).with_columns(prompt_tokens=10).write_parquet(path)
    return path


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--method", "fixed", "--objective", "padding"], "--objective is of no use with --method"),
        (["--method", "random", "--objective", "seconds"], "--objective is of no use"),
        (["--method", "fixed", "--slack", "0"], "--slack is of no use with --method fixed"),
        (["--method", "random", "--by", "upper"], "--by is of no use with --method random"),
        (["--kv-tokens", "0"], "'--kv-tokens'"),
        (["--max-rounds", "3"], "--max-rounds is of use with --max-lag H above 0 alone"),
        (["--prefill-cost", "0.1", "--max-lag", "0"], "--prefill-cost is of use with --max-lag"),
        (["--group-size", "4"], "--group-size is of use with --max-lag"),
        (["--max-lag", "1", "--prefill-cost", "inf"], "must be a finite number, not inf"),
    ],
)
def test_flags_without_use_exit_2(lengths: Path, asp: Run, flags: list[str], words: str) -> None:
    done = asp("partition", lengths, *flags, "-o", lengths.parent / "m")
    assert done.code == 2 and words in done.only_line
    assert not (lengths.parent / "m").exists()


def test_a_cost_model_prices_every_minibatch_and_is_noted(lengths: Path, asp: Run) -> None:
    costs, output = lengths.parent / "costs.json", lengths.parent / "m"
    costs.write_text(json.dumps(COSTS))
    assert asp("partition", lengths, "--cost-model", costs, "-o", output).code == 0
    frame = pl.read_parquet(output)
    expected = 0.125 * 10 * frame["num_samples"] + frame["predicted_longest"] * (
        0.5 + 0.25 * frame["num_samples"]
    )
    np.testing.assert_allclose(frame["predicted_seconds"], expected)
    footer = json.loads(pl.read_parquet_metadata(output)["asp"])
    assert footer["config"]["cost_model"] == COSTS
    assert [item["role"] for item in footer["inputs"]] == ["lengths", "cost_model"]
    assert asp("balance", output, "-o", lengths.parent / "g").code == 0


def test_budgets_go_through_to_the_schedule_and_its_report(
    tmp_path: Path, make_lengths: Make, asp: Run
) -> None:
    rng = np.random.default_rng(0)
    lengths, tokens = make_lengths(128, sigma=1.2), rng.lognormal(5.0, 1.2, (128, 2))
    lengths.write_parquet(tmp_path / "l")
    pl.DataFrame(
        {
            "prompt_id": np.repeat(np.arange(128), 2), "model": "m", "prompt": "?",
            "prompt_hash": [f"{p:016x}" for p in np.repeat(np.arange(128), 2)],
            "sample_index": np.tile([0, 1], 128), "finish_reason": "stop",
            "response_tokens": np.minimum(tokens, 2048).astype(int).ravel(),
        }
    ).write_parquet(tmp_path / "observed")  # fmt: skip
    cut = ("partition", tmp_path / "l", "--samples-per-prompt", "2", "--batch-size", "8")
    done = asp(*cut, "--max-lag", "2", "-o", tmp_path / "m")
    assert done.code == 0 and "token budgets" in done.stderr
    assert asp("balance", tmp_path / "m", "--group-size", "4", "-o", tmp_path / "g").code == 0
    assert asp("emit", tmp_path / "g", "-o", tmp_path / "s").code == 0
    assert "then none" in asp("inspect", tmp_path / "s").stdout.decode()
    told = asp(
        "report", tmp_path / "s", "--lengths", tmp_path / "l", "--profile", tmp_path / "observed"
    )
    assert told.code == 0 and "has token budgets" in told.stderr
    (utilization,) = [
        line for line in told.stdout.decode().splitlines() if line.startswith("utilisation")
    ]
    random, _, schedule = map(float, utilization.split()[4:7])
    assert schedule > 1.3 * random
    off = asp(*cut, "--max-lag", "2", "--no-budget", "-o", tmp_path / "n")
    assert off.code == 0 and "token budgets" not in off.stderr
    assert (pl.read_parquet(tmp_path / "n")["kind"].cast(pl.String) == "head").all()


def test_a_profile_is_fitted_and_the_error_shown_and_noted(lengths: Path, asp: Run) -> None:
    rng = np.random.default_rng(0)
    tokens, concurrency = rng.integers(10, 1000, 200), rng.choice([4, 32], 200)
    latency = tokens * (0.5 + 0.25 * concurrency) * rng.lognormal(0, 0.02, 200)
    pl.DataFrame(
        {"prompt_id": range(200), "prompt_hash": [f"{i:x}" for i in range(200)], "prompt": "x",
         "model": "m", "sample_index": 0, "response_tokens": tokens, "finish_reason": "stop",
         "latency_s": latency, "concurrency": concurrency}
    ).write_parquet(lengths.parent / "p")  # fmt: skip
    output = lengths.parent / "m"
    done = asp("partition", lengths, "--cost-model", lengths.parent / "p", "-o", output)
    assert done.code == 0
    assert "cost model of 200 responses: step_seconds 0." in done.stderr
    assert "held-out prompts: median 1." in done.stderr
    assert "warning" in done.stderr and "no prompt_tokens" in done.stderr
    footer = json.loads(pl.read_parquet_metadata(output)["asp"])
    assert footer["config"]["cost_model"]["sequence_seconds"] == pytest.approx(0.25, rel=0.02)
    assert footer["results"]["cost_model_rows"] == 200
    assert 0 < footer["results"]["cost_model_median_error"] < 0.02


def test_a_bad_cost_model_is_one_line_and_nothing_is_written(lengths: Path, asp: Run) -> None:
    costs = lengths.parent / "costs.json"
    costs.write_text(json.dumps(COSTS | {"kv_seconds": -1}))
    done = asp("partition", lengths, "--cost-model", costs, "-o", lengths.parent / "m")
    assert done.code == 1 and f"{costs}: kv_seconds is -1" in done.only_line
    assert not (lengths.parent / "m").exists()
    done = asp("partition", "-", "--cost-model", "-", "-o", lengths.parent / "m")
    assert done.code == 2 and "one input only" in done.only_line


def test_a_memory_limit_says_what_it_did(lengths: Path, asp: Run) -> None:
    output = lengths.parent / "m"
    done = asp("partition", lengths, "--kv-tokens", 20_000, "-o", output)
    assert done.code == 0 and "warning: --kv-tokens 20000: " in done.stderr
    frame = pl.read_parquet(output)
    held = frame["num_prompts"] * (10 + frame["predicted_longest"])
    assert held.max() <= 20_000 * (1 + 1e-9) and len(frame) > 2
    done = asp("partition", lengths, "--kv-tokens", 5, "-o", output, "--force")
    assert done.code == 1 and "--kv-tokens 5" in done.only_line


def test_a_report_replays_with_the_cost_model_and_the_limit(lengths: Path, asp: Run) -> None:
    folder = lengths.parent
    (folder / "c.json").write_text(json.dumps(COSTS | {"kv_seconds": 0.001}))
    flags = ["--cost-model", folder / "c.json", "--kv-tokens", 20_000]
    asp("partition", lengths, *flags, "-o", folder / "m")
    asp("balance", folder / "m", "--group-size", 2, "-o", folder / "g")
    pl.DataFrame(
        {"prompt_id": range(64), "prompt_hash": [str(i) for i in range(64)], "prompt": "x",
         "model": "m", "sample_index": 0, "response_tokens": 25_000, "finish_reason": "stop"}
    ).write_parquet(folder / "p")  # fmt: skip
    done = asp("report", folder / "g", "--lengths", lengths, "--profile", folder / "p")
    assert done.code == 0, done.stderr
