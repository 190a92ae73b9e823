"""`asp plan` from a lengths table to a plan, and from its commands to the schedule it simulated."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Run = Callable[..., Any]
Make = Callable[..., pl.DataFrame]

CLUSTER = """
[generation]
units = 1
actors = 2
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
max_lag = 2
"""
FEW = (
    "--batch-size", "4,8", "--slack", "0.25", "--prompts-per-group", 16, "--policy",
    "balanced,like", "--max-rounds", "0,2", "--max-lag", "2,0", "--seeds", 2,
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, make_lengths: Make) -> Path:
    """Lengths of 192 prompts, 12 steps; a cluster."""
    make_lengths(192, sigma=0.8).with_columns(
        prompt_tokens=pl.lit(20), samples_per_prompt=pl.lit(2), sample_sigma=pl.lit(0.6)
    ).write_parquet(tmp_path / "lengths")
    (tmp_path / "cluster").write_text(CLUSTER)
    return tmp_path


def plan(folder: Path, asp: Run, *flags: object) -> Any:
    return asp("plan", folder / "lengths", "--cluster", folder / "cluster", *FEW, *flags)


def test_the_commands_make_the_plan_that_was_simulated(folder: Path, asp: Run) -> None:
    done = plan(folder, asp, "-o", folder / "plan", "--tolerance", 0.01)
    assert done.code == 0, done.stderr
    text = done.stdout.decode()
    table = pl.read_parquet(folder / "plan")
    knee = table.row(by_predicate=pl.col("is_knee"), named=True)
    assert (knee["actors"], knee["training_devices"], knee["batch_size"]) == (3, 1, 8)
    assert (knee["max_rounds"], knee["max_lag"], knee["num_seeds"]) == (2, 2, 2)
    assert knee["gain"] == pytest.approx(1.63, abs=5e-3) and knee["gain_low"] > 1
    assert "each waits for the other" in text
    assert re.search(r"\nknee +3 +1 +8 +0\.25 +16 +balanced +2 +2 .*, a gain\n", text)
    assert "settings in" in done.stderr and "runs of 192 prompts" in done.stderr
    assert asp("inspect", folder / "plan").code == 0

    cost = re.search(r"  echo '(.*)' > cost.json", text)
    assert cost is not None
    (folder / "cost.json").write_text(cost[1])
    lines = re.search(r"asp partition .* schedule.parquet", text, re.DOTALL)
    assert lines is not None
    for number, step in enumerate(lines[0].split("|")):
        words = [word for word in shlex.split(step) if word != "asp"]
        words = [str(folder / word) if word == "cost.json" else word for word in words]
        words = [str(folder / f"s{number - 1}") if word == "-" else word for word in words]
        words[-1] = str(folder / f"s{number}")
        assert asp(*words).code == 0
    for old, new in (
        ("actors = 2", knee["actors"]), ("devices = 2", knee["training_devices"]),
        ("max_lag = 2", knee["max_lag"]),
    ):  # fmt: skip
        told = (folder / "cluster").read_text().replace(old, f"{old[:-1]}{new}")
        (folder / "cluster").write_text(told)
    iterations = []
    for seed in (0, 1):
        flags = ("--lengths", folder / "lengths", "--seed", seed, "-o", folder / "t", "--force")
        done = asp("simulate", folder / "s2", "--cluster", folder / "cluster", *flags)
        iterations.append(float(re.search(r"([\d.]+) s an iteration", done.stderr)[1]))  # type: ignore[index]
    assert sum(iterations) / 2 == pytest.approx(knee["iteration_seconds"], abs=0.1)


def test_equal_inputs_give_equal_bytes(folder: Path, asp: Run) -> None:
    flags = (
        "--max-rounds", 0, "--max-lag", 2, "--policy", "balanced", "--batch-size", 8,
        "--training-devices", "2,1",
    )  # fmt: skip
    first, second = (plan(folder, asp, *flags, "-o", "-") for _ in range(2))
    assert first.stdout.startswith(b"PAR1") and first.stdout == second.stdout
    assert "The knee, made:" in first.stderr
    assert first.stdout != plan(folder, asp, *flags, "-o", "-", "--seed", 1).stdout


def test_what_is_printed_can_be_put_in_as_it_stands(folder: Path, asp_process: Run) -> None:
    two = CLUSTER.replace("units = 1\nactors = 2", "units = 2\nactors = 1\nspeeds = [2, 2]")
    (folder / "cluster").write_text(two)
    done = asp_process(
        "plan", "-", "--cluster", folder / "cluster", "--training-devices", 1, "--batch-size", 8,
        "--slack", "0.123456789", "--prompts-per-group", 16, "--policy", "balanced",
        "--max-rounds", 0, "--max-lag", 0, "--tolerance", 0, "--seeds", 2,
        stdin=(folder / "lengths").read_bytes(),
    )  # fmt: skip
    text = done.stdout.decode()
    assert "  asp partition - --samples-per-prompt 2 " in text and "--slack 0.123456789 " in text
    assert "generation.units = 1, generation.speeds = [2.0], generation.actors = 3" in text


def test_of_many_prompts_some_are_drawn(folder: Path, asp: Run) -> None:
    flags = ("--prompts-per-group", 8, "--max-rounds", 0, "--policy", "balanced", "--max-lag", 2)
    done = plan(folder, asp, *flags, "--training-devices", 2)
    assert "planning on 96 of the 192 prompts, drawn at random" in done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--batch-size", "8,x"], "--batch-size 8,x: give values with commas between"),
        (["--slack", "2"], "--slack 2: give values"),
        (["--policy", "odd"], "--policy odd: give values among balanced, like, isolate"),
        (["--max-rounds", "-1"], "--max-rounds -1: give values"),
    ],
)
def test_wrong_flags(folder: Path, asp: Run, flags: list[object], words: str) -> None:
    done = plan(folder, asp, *flags)
    assert done.code == 2
    assert words in done.only_line


def test_bad_inputs(folder: Path, asp: Run) -> None:
    done = plan(folder, asp, "--training-devices", 4, "-o", folder / "plan")
    assert (done.code, "--training-devices 4 leaves less" in done.only_line) == (1, True)
    assert not (folder / "plan").exists()
    (folder / "cluster").write_text(CLUSTER + "[queue]\ncapacity = 20\n")
    done = plan(folder, asp)
    assert f"{folder}/cluster: queue_capacity is 20 samples" in done.only_line
