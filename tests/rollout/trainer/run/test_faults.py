"""Whatever is killed: each prompt is trained on once in the history of the weights that survive."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import psutil
import pytest

from rollout.trainer.engines.timed import read_weights
from tests.rollout.trainer.run.conftest import read_journal

NUM_GROUPS = 60
PATIENCE_S = 240.0


class Victim:
    """`asp train` in a process, begun again each time that it is killed."""

    def __init__(
        self, files: Path, place: Path, ray_address: str | None, scale: float, *flags: str
    ) -> None:
        self.place = place
        self._command = [
            sys.executable, "-m", "asp_cli.main", "train", files / "schedule",
            "--engine", "timed", "--cluster", files / "static", "--lengths", files / "lengths",
            "--time-scale", scale, "--checkpoint-every", 2, "-o", place,
            *(("--ray", ray_address) if ray_address else ()), *flags,
        ]  # fmt: skip
        self.pids: set[int] = set()
        self.begin()

    def begin(self) -> None:
        self.driver = subprocess.Popen(
            list(map(str, self._command)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def steps(self) -> int:
        """Training steps in the journal."""
        try:
            return int(read_journal(self.place, "SELECT count(*) FROM steps")[0][0])
        except Exception:  # there is none yet, or not all of it
            return 0

    def processes(self) -> dict[str, int]:
        """Of units by name, as the journal knows them."""
        try:
            found = dict(read_journal(self.place, "SELECT unit, pid FROM processes"))
        except Exception:
            return {}
        self.pids.update(found.values())
        return {unit: pid for unit, pid in found.items() if psutil.pid_exists(pid)}

    def kill(self, who: str) -> bool:
        """Whether it was there to be killed."""
        if who == "driver":
            self.driver.kill()
            self.driver.communicate()
            self.begin()
            return True
        pid = self.processes().get(who)
        if pid is None:
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def wait_for(self, num_steps: int) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while self.steps < num_steps:
            assert time.monotonic() < deadline_s, self.driver.stdout
            assert self.driver.poll() is None, self.driver.communicate()[0]
            time.sleep(0.02)

    def finish(self) -> str:
        self.processes()
        words, _ = self.driver.communicate(timeout=PATIENCE_S)
        assert self.driver.returncode == 0, words
        return words


def check(victim: Victim) -> None:
    """The journal tells the history of the weights, in which each sample group is once."""
    steps: list[list[int]] = read_weights(victim.place / "model")["trained"]
    assert Counter(group for step in steps for group in step) == Counter(range(NUM_GROUPS))
    journal = dict(read_journal(victim.place, "SELECT number, step FROM trained"))
    assert journal == {group: step for step, groups in enumerate(steps) for group in groups}
    metrics = pl.read_parquet(victim.place / "metrics.parquet")
    assert metrics["step"].to_list() == [step for step, groups in enumerate(steps) if groups]
    assert metrics["max_lag"].max() <= 3
    trace = pl.read_parquet(victim.place / "trace.parquet")
    assert trace["lag"].max() <= 3
    assert not {"checkpoints", "snapshots"} & {entry.name for entry in victim.place.iterdir()}


def all_gone(pids: set[int], patience_s: float = 30.0) -> bool:
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        if not any(is_alive(pid) for pid in pids):
            return True
        time.sleep(0.1)
    return False


def is_alive(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        return any(
            word in " ".join([process.name(), *process.cmdline()]) for word in ("ray", "asp")
        )
    except psutil.Error:
        return False


def test_a_unit_the_trainer_and_the_driver_are_killed(
    files: Path, tmp_path: Path, ray_address: str
) -> None:
    victim = Victim(files, tmp_path / "run", ray_address, scale=0.5)
    for number, who in enumerate(("GU0", "TU", "driver")):
        victim.wait_for(2 + 2 * number)
        while not victim.kill(who):
            time.sleep(0.05)
    words = victim.finish()
    assert "going on from policy version" in words
    check(victim)
    events = Counter(pl.read_parquet(victim.place / "trace.parquet")["event"])
    assert events["lost"] >= 3, "two actors and the Training Unit"
    assert all_gone(victim.pids)


@pytest.mark.slow
def test_100_random_kills(files: Path, tmp_path: Path, ray_address: str) -> None:
    """At random times, as soon as a run is up again; a run that came to its end is checked."""
    choose = random.Random(0)
    killed: Counter[str] = Counter()
    num_runs = 0
    begin_s = time.monotonic()
    shared_before = set(os.listdir("/dev/shm"))
    while killed.total() < 100:
        victim = Victim(files, tmp_path / f"run{num_runs}", ray_address, scale=3.0)
        num_runs += 1
        while victim.driver.poll() is None:
            time.sleep(choose.uniform(0.0, 2.0))
            who = choose.choice(["GU0", "GU1", "TU", "driver"])
            if killed.total() < 100 and len(victim.processes()) == 3 and victim.kill(who):
                killed[who] += 1
        victim.finish()
        check(victim)
        assert all_gone(victim.pids)
        (sessions,) = read_journal(victim.place, "SELECT count(*) FROM sessions")[0]
        print(
            f"run {num_runs} to its end in {sessions} sessions; {killed.total()} kills in all, "
            f"{dict(killed)}, after {time.monotonic() - begin_s:.0f} s", flush=True,
        )  # fmt: skip
    assert set(os.listdir("/dev/shm")) <= shared_before


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_where_the_driver_has_a_ray_of_its_own(
    how: signal.Signals, files: Path, tmp_path: Path
) -> None:
    """No process, no shared memory, whether it can tidy up or not; the same command goes on."""
    pytest.importorskip("ray")
    before = set(os.listdir("/dev/shm"))
    victim = Victim(files, tmp_path / "run", None, scale=0.5)
    victim.wait_for(3)
    children = {child.pid for child in psutil.Process(victim.driver.pid).children(recursive=True)}
    victim.driver.send_signal(how)
    words, _ = victim.driver.communicate(timeout=PATIENCE_S)
    if how is signal.SIGINT:
        assert victim.driver.returncode == 130
        assert "stopped; the same command goes on" in words
    # Ray's own agents end by themselves, about a minute after the rest of it.
    assert all_gone(children | set(victim.processes().values()), 150)
    assert set(os.listdir("/dev/shm")) <= before
    assert not (victim.place / "model").exists()
    assert victim.steps >= 3
    victim.begin()
    assert "going on from policy version" in victim.finish()
    check(victim)
    assert set(os.listdir("/dev/shm")) <= before
