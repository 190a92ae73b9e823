"""`asp train`: what is refused before any process is started."""

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Run = Callable[..., Any]
TIMED = ("--engine", "timed", "--cluster", "c", "--lengths", "l")

CLUSTER = """
[generation]
units = 1
actors = 1
slots = 4
engine = "static"
reload_seconds = 0
cost = {step_seconds = 0.01, sequence_seconds = 0, prefill_seconds = 0, kv_seconds = 0}
[training]
devices = 1
tokens_per_second = 1000
step_seconds = 0
publication_seconds = 0
[lag]
max_lag = 1
"""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "--model is missing; --engine transformers needs it"),
        (("--engine", "timed", "--cluster", "c"), "--lengths is missing; --engine timed needs it"),
        ((*TIMED, "--slots", 4), "--slots: --engine timed takes none; leave it out"),
        (("--refresh-each-epoch",), "--lengths is missing; --refresh-each-epoch needs it"),
        (("--lengths", "l"), "--lengths: of use here with --refresh-each-epoch alone"),
        (("--time-scale", 1), "--time-scale: --engine transformers takes none"),
        ((*TIMED, "--epochs", 2), "--epochs: a schedule says so itself"),
        ((*TIMED, "--time-scale", 0), "must be a number above 0"),
        ((*TIMED, "--response-timeout", "inf"), "must be a number above 0"),
    ],
)
def test_flags_that_do_not_go_together(flags: tuple[Any, ...], message: str, asp: Run) -> None:
    done = asp("train", "schedule", *flags, "-o", "run")
    assert done.code == 2 and message in done.only_line


def test_without_ray_it_says_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['ray'] = None\nfrom asp_cli.main import main\n"
        "sys.exit(main('train s --engine timed --cluster c --lengths l -o run'.split()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "asp: error: asp train needs Ray: pip install 'asp-schedule[train]'\n"


@pytest.fixture
def folder(tmp_path: Path, make_lengths: Run) -> Path:
    make_lengths(8).write_parquet(tmp_path / "lengths")
    (tmp_path / "cluster").write_text(CLUSTER)
    return tmp_path


def timed(folder: Path) -> tuple[Any, ...]:
    return ("--engine", "timed", "--cluster", folder / "cluster", "--lengths", folder / "lengths")


def test_mode_asp_needs_a_schedule(folder: Path, asp: Run) -> None:
    pytest.importorskip("ray")
    done = asp("train", *timed(folder), "-o", folder / "run")
    assert done.code == 1
    assert "mode asp follows a schedule; give one" in done.only_line
    assert not (folder / "run").exists()


def test_a_minibatch_must_fit_into_a_static_engine(folder: Path, asp: Run) -> None:
    pytest.importorskip("ray")
    done = asp("train", *timed(folder), "--mode", "async", "-o", folder / "run")
    assert done.code == 1
    assert "a minibatch of 64 responses does not fit into an actor of 4 slots" in done.only_line


def test_prompts_that_the_schedule_has_and_the_lengths_lack(folder: Path, asp: Run) -> None:
    pytest.importorskip("ray")
    pl.DataFrame(
        {
            "minibatch_id": [0], "group_id": [0], "position": [0], "prompt_ids": [[3, 9]],
            "num_samples": [2], "predicted_tokens": [1.0], "predicted_longest": [1.0],
            "predicted_seconds": [1.0], "predicted_utilization": [0.5],
        }
    ).write_parquet(folder / "schedule")  # fmt: skip
    done = asp("train", folder / "schedule", *timed(folder), "-o", folder / "run")
    assert done.code == 1
    assert "lacks 1 of the prompts" in done.only_line and "prompt_id 9" in done.only_line


def test_a_model_directory_and_a_reward_are_looked_at_first(folder: Path, asp: Run) -> None:
    pytest.importorskip("ray")
    (folder / "prompts").write_text('{"prompt": "p"}\n')
    given = ("--prompts", folder / "prompts", "--mode", "async", "-o", folder / "run")
    done = asp("train", "--model", folder, "--reward", "truth", *given)
    assert done.code == 1 and "--reward truth: is no reward of this tool" in done.only_line
    done = asp("train", "--model", folder, "--reward", "math:prod", *given)
    assert done.code == 1 and "holds no config.json" in done.only_line
    (folder / "config.json").write_text("{}")
    done = asp("train", "--model", folder, "--reward", "gsm8k", *given)
    assert done.code == 1
    assert "prompts: prompt_id 0: reward gsm8k: the prompt file has no column" in done.only_line


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_an_engine_that_is_not_installed_is_told(folder: Path, asp: Run) -> None:
    pytest.importorskip("ray")
    (folder / "prompts").write_text('{"prompt": "p"}\n')
    (folder / "config.json").write_text("{}")
    done = asp(
        "train", "--model", folder, "--engine", "vllm", "--reward", "math:prod", "--mode", "async",
        "--prompts", folder / "prompts", "-o", folder / "run",
    )  # fmt: skip
    assert done.code == 1 and "--engine vllm: is not installed here" in done.only_line
    assert not (folder / "run").exists()
