"""`asp simulate` from a lengths table to a trace, and to a comparison."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Run = Callable[..., Any]
Make = Callable[..., pl.DataFrame]

CLUSTER = """
mode = "asp"
[generation]
units = 1
actors = 3
slots = 20
engine = "static"
reload_seconds = 0.5
[generation.cost]
step_seconds = 0.02
sequence_seconds = 0.0001
prefill_seconds = 0.00001
kv_seconds = 0
[training]
devices = 2
tokens_per_second = 1000
step_seconds = 1
publication_seconds = 0.5
[lag]
max_lag = 4
"""


@pytest.fixture
def folder(tmp_path: Path, make_lengths: Make, asp: Run) -> Path:
    """Lengths of 128 prompts, a schedule with budgets, recorded lengths, a cluster."""
    make_lengths(128, sigma=0.8).with_columns(
        prompt_tokens=pl.lit(20), samples_per_prompt=pl.lit(4), sample_sigma=pl.lit(0.6)
    ).write_parquet(tmp_path / "lengths")
    pl.DataFrame(
        {"prompt_id": [p for p in range(128) for _ in range(3)], "sample_index": [0, 1, 2] * 128}
    ).with_columns(
        prompt=pl.lit("p"), prompt_hash=pl.col("prompt_id").cast(pl.String), model=pl.lit("m"),
        response_tokens=1 + pl.col("prompt_id") * 7919 % 800 + 20 * pl.col("sample_index"),
        finish_reason=pl.lit("stop"),
    ).write_parquet(tmp_path / "observed")  # fmt: skip
    (tmp_path / "cluster").write_text(CLUSTER)
    cut = ("--batch-size", 8, "--samples-per-prompt", 2, "--max-lag", 4, "--group-size", 2)
    for step in (
        ("partition", tmp_path / "lengths", *cut, "-o", tmp_path / "m"),
        ("balance", tmp_path / "m", "--group-size", 2, "-o", tmp_path / "g"),
        ("emit", tmp_path / "g", "-o", tmp_path / "schedule"),
    ):
        assert asp(*step).code == 0
    return tmp_path


def inputs(folder: Path, profile: bool = True) -> list[object]:
    given: list[object] = [
        "simulate", folder / "schedule", "--cluster", folder / "cluster",
        "--lengths", folder / "lengths",
    ]  # fmt: skip
    return [*given, "--profile", folder / "observed"] if profile else given


def test_a_run_is_written_and_told(folder: Path, asp: Run) -> None:
    done = asp(*inputs(folder), "-o", folder / "t", "--chrome-trace", folder / "t.json")
    assert (done.code, done.stdout) == (0, b"")
    trace = pl.read_parquet(folder / "t")
    schedule = pl.read_parquet(folder / "schedule")
    heads = schedule.filter(pl.col("kind") == "head")
    assert schedule["token_budget"].count() and len(heads) < len(schedule)
    sent = trace.filter(pl.col("event") == "dispatch")
    assert set(heads["minibatch_id"]) <= set(sent["minibatch_id"])
    assert not set(sent["minibatch_id"].drop_nulls()) <= set(heads["minibatch_id"]), "no tail ran"
    assert trace["lag"].max() == int(re.search(r"at most (\d)", done.stderr)[1])  # type: ignore[index]
    assert trace["lag"].max() <= 4  # type: ignore[operator]
    parts = re.findall(r"(\d+\.\d)%", done.stderr.split("device time:")[1])
    assert len(parts) == 8
    assert sum(int(part.replace(".", "")) for part in parts) == 1000
    assert asp("inspect", folder / "t").code == 0
    spans = json.loads((folder / "t.json").read_text())["traceEvents"]
    ends: dict[tuple[int, int], float] = {}
    for span in sorted((s for s in spans if s["ph"] == "X"), key=lambda s: s["ts"]):
        lane = span["pid"], span["tid"]
        assert span["ts"] >= ends.get(lane, 0.0) - 1e-3, "spans of a lane overlap"
        ends[lane] = span["ts"] + span["dur"]


def test_equal_seeds_give_equal_bytes(folder: Path, asp: Run) -> None:
    first, second = (asp(*inputs(folder), "-o", "-", "--seed", 3) for _ in range(2))
    other = asp(*inputs(folder), "-o", "-", "--seed", 4)
    assert first.stdout.startswith(b"PAR1") and first.stdout == second.stdout
    assert first.stdout != other.stdout


@pytest.mark.parametrize("mode", ["async", "hybrid"])
def test_a_mode_that_carries_nothing_says_so(folder: Path, asp: Run, mode: str) -> None:
    (folder / "cluster").write_text(CLUSTER.replace('"asp"', f'"{mode}"'))
    done = asp(*inputs(folder, profile=False), "-o", folder / "t")
    assert done.code == 0
    assert f"mode {mode} carries no responses" in done.stderr
    trace = pl.read_parquet(folder / "t")
    sent = trace.filter(pl.col("event") == "dispatch")
    assert sent["minibatch_id"].n_unique() == 16 and sent["minibatch_id"].null_count() == 0
    if mode == "hybrid":
        assert trace["lag"].max() == 0
        assert (
            trace["actor"].drop_nulls().n_unique() == 5
        )  # the two devices of training generate too


def test_budgets_beyond_the_lag_bound_are_left_out(folder: Path, asp: Run) -> None:
    (folder / "cluster").write_text(CLUSTER.replace("max_lag = 4", "max_lag = 0"))
    done = asp(*inputs(folder), "-o", folder / "t")
    assert done.code == 0
    assert "no token budget can be kept: the nearest tail comes 1 steps after" in done.stderr
    assert "at most 0" in done.stderr


def test_a_placement_that_leaves_actors_idle_is_told(folder: Path, asp: Run) -> None:
    for instances, is_told in ((2, True), (3, False)):
        flags = ("--instances", instances, "-o", folder / "schedule", "--force")
        assert asp("balance", folder / "m", "--group-size", 6, *flags).code == 0
        done = asp(*inputs(folder), "-o", folder / "t", "--force")
        assert done.code == 0
        assert (f"on {instances} instances, and the cluster has 3 actors" in done.stderr) == is_told


def test_a_comparison_in_both_engines(folder: Path, asp: Run) -> None:
    done = asp(*inputs(folder), "--compare", "--seeds", 2)
    assert done.code == 0
    text = done.stdout.decode()
    names = ["hybrid", "async", "bounded", "sorted", "fixed", "no budgets", "schedule", "oracle"]
    for block in text.split("\n\n")[:2]:
        lines = block.splitlines()[1:]
        assert [line[:20].strip() for line in lines] == names
        for line in lines:
            verdicts = re.findall(
                r"x \((\d+\.\d\d) to (\d+\.\d\d)\), (a gain|a loss|no gain)", line
            )
            assert len(verdicts) == (1 if line.startswith(("async", "bounded")) else 2), line
            for low, high, verdict in verdicts:
                assert verdict != "a gain" or float(low) >= 1
                assert verdict != "a loss" or float(high) <= 1
                assert verdict != "no gain" or float(low) <= 1 <= float(high)
            if not line.startswith(("hybrid", "async")):
                assert int(line[41:59].split()[-1]) <= 4, "beyond the lag bound"
    assert done.stdout == asp(*inputs(folder), "--compare", "--seeds", 2).stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--compare", "-o", "t"], "--output and --chrome-trace are of one run"),
        (["-o", "t", "--seeds", 3], "--seeds is of use with --compare alone"),
        ([], "--output is missing"),
        (["-o", "-", "--chrome-trace", "-"], "--chrome-trace and --output are the same"),
    ],
)
def test_wrong_flags(folder: Path, asp: Run, flags: list[object], words: str) -> None:
    done = asp(*inputs(folder), *flags)
    assert done.code == 2
    assert words in done.only_line


def test_a_minibatch_that_no_actor_holds(folder: Path, asp: Run) -> None:
    (folder / "cluster").write_text(CLUSTER.replace("slots = 20", "slots = 4"))
    done = asp(*inputs(folder), "-o", folder / "t")
    assert done.code == 1
    assert f"{folder}/cluster: a minibatch of" in done.only_line
    assert "does not fit into an actor of 4 slots" in done.only_line
    assert not (folder / "t").exists()


def test_schedules_that_cannot_be_run(folder: Path, asp: Run) -> None:
    schedule = pl.read_parquet(folder / "schedule")
    is_tail = pl.col("kind") == "tail"
    schedule.filter(is_tail).write_parquet(folder / "schedule")
    done = asp(*inputs(folder), "-o", folder / "t")
    assert (done.code, "schedules no prompts" in done.only_line) == (1, True)
    budget = pl.when(pl.col("minibatch_id") == 3).then(17).otherwise("token_budget")
    schedule.with_columns(token_budget=budget).write_parquet(folder / "schedule")
    done = asp(*inputs(folder), "-o", folder / "t")
    assert done.code == 1
    assert f"{folder}/schedule: column token_budget: round 0 has 17, " in done.only_line
    assert not (folder / "t").exists()


def test_lengths_and_profiles_of_other_prompts(folder: Path, asp: Run, make_lengths: Make) -> None:
    make_lengths(100).write_parquet(folder / "lengths")
    assert "lacks 28 of the prompts" in asp(*inputs(folder), "-o", folder / "t").only_line
    make_lengths(128).write_parquet(folder / "lengths")
    observed = pl.read_parquet(folder / "observed")
    observed.filter(pl.col("prompt_id") == 3).write_parquet(folder / "observed")
    done = asp(*inputs(folder), "-o", folder / "t")
    assert "127 of 128 prompts have no recorded response" in done.stderr
    observed.with_columns(pl.col("prompt_id") + 500).write_parquet(folder / "observed")
    done = asp(*inputs(folder), "-o", folder / "t", "--force")
    assert "holds no response to any of the prompts" in done.only_line


def test_a_queue_that_is_too_small(folder: Path, asp: Run) -> None:
    (folder / "cluster").write_text(CLUSTER + "[queue]\ncapacity = 20\n")
    for flags in (["-o", folder / "t"], ["--compare"]):
        done = asp(*inputs(folder), *flags)
        assert done.code == 1
        assert f"{folder}/cluster: queue_capacity is 20 samples" in done.stderr


def test_what_follows_from_device_and_model_is_told_apart(folder: Path, asp: Run) -> None:
    start, rest = CLUSTER.split("[generation.cost]")
    head = 'device = "H100"\nmodel = "Qwen2.5-7B"\nroofline.host_seconds = 0.01\n'
    (folder / "cluster").write_text(f"{head}{start}[training]{rest.split('[training]')[1]}")
    done = asp(*inputs(folder), "-o", folder / "t")
    assert done.code == 0
    told = "derived by a roofline of Qwen2.5-7B on 1 x H100, not measured: generation.cost.step_s"
    assert told in done.stderr
    assert "given in place of it: training.tokens_per_second, training.publ" in done.stderr
