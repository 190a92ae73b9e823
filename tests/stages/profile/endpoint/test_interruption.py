"""The command in a process of its own, killed or stopped while servers answer."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from tests.stages.profile.endpoint.fake_server import FakeServer, Json, Said, answer

NUM_RESPONSES = 40


def command(folder: Path, server: FakeServer) -> list[str]:
    flags = (
        "--endpoint", server.url, "--model", "m", "--concurrency", "4", "--seed-requests",
        "--max-response-tokens", "64", "--samples-per-prompt", "4", "-o", str(folder / "p.parquet"),
    )  # fmt: skip
    prompts = str(folder / "prompts.parquet")
    return [sys.executable, "-m", "asp_cli.main", "profile", prompts, *flags]


def broken_off(folder: Path, signal_: signal.Signals, num_answered: int) -> tuple[int, str]:
    """Send a signal when a server that then hangs has answered so many; exit code and words."""

    def behave(number: int, asked: Json) -> Said:
        said = answer(asked)
        return said if number < num_answered else replace(said, wait_s=600)

    with FakeServer(behave) as server:
        started = subprocess.Popen(command(folder, server), stderr=subprocess.PIPE, text=True)
        while len(server.asked) < num_answered + 4:
            time.sleep(0.02)
        os.kill(started.pid, signal_)
        _, words = started.communicate(timeout=30)
    return started.returncode, words


def kept(words: str) -> int:
    """All but what came in at the very moment of the signal."""
    found = re.search(r"stopped; (\d+) responses are kept", words)
    assert found is not None, words
    return int(found[1])


def test_stopped_and_killed_it_goes_on(asp: Callable[..., Any], tmp_path: Path) -> None:
    pl.DataFrame({"prompt": [f"What is {n}?" for n in range(10)]}).write_parquet(
        tmp_path / "prompts.parquet"
    )
    code, words = broken_off(tmp_path, signal.SIGINT, 10)
    num_kept = kept(words)
    assert num_kept <= 10
    line = f"{num_kept} responses are kept in {tmp_path}/p.parquet.journal"
    last = words.splitlines()[-1]
    assert last == f"asp: error: stopped; {line}; the same command goes on from there"
    assert code == 130
    code, words = broken_off(tmp_path, signal.SIGKILL, 10)
    assert code == -signal.SIGKILL
    assert f"resuming: {num_kept} of 40 responses are in the journal" in words
    code, words = broken_off(tmp_path, signal.SIGTERM, 10)
    assert code == 130
    assert num_kept < kept(words) <= num_kept + 20
    with FakeServer() as server:
        outcome = asp(*command(tmp_path, server)[3:])
    assert outcome.code == 0, outcome.stderr
    assert server.num_answered == NUM_RESPONSES - kept(words)
    assert "resuming" in outcome.stderr
    resumed = pl.read_parquet(tmp_path / "p.parquet")
    with FakeServer() as server:
        arguments = command(tmp_path, server)[3:]
        assert asp(*arguments[:-1], tmp_path / "whole.parquet").code == 0
    timed = ["latency_s", "concurrency"]
    assert resumed.drop(timed).equals(pl.read_parquet(tmp_path / "whole.parquet").drop(timed))
