"""Parts that fail without dying: no room, damaged files, what hangs, rewards that never come."""

import importlib.util
import io
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rollout.trainer.board import board
from rollout.trainer.config import ControlConfig, CutConfig, RunConfig, TimedConfig
from rollout.trainer.engines.timed import WEIGHTS_FILE, TimedEngine, read_weights
from rollout.trainer.journal import Journal
from rollout.trainer.live import screen
from rollout.trainer.machine import Machine, Scores
from rollout.trainer.rundir import RunDir
from rollout.trainer.samples import Draft, SampleGroup
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.timed import TimedMetrics, TimedTrainer
from stages.tables.errors import AspError
from tests.rollout.trainer.run.conftest import read_journal

Run = Callable[..., Path]
seen: list[str] = []  # on the screen, after a run


def first_time(marks: Path, what: str) -> bool:
    """Whether no process has done this before."""
    try:
        (marks / what).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def damage(file: Path) -> None:
    file.write_text("{" + file.read_text())


class UnluckyTrainer(TimedTrainer):
    """No room at version 2, a damaged snapshot at 4, a damaged checkpoint at 6, then its end."""

    def __init__(self, open_trainer: Callable[[], TimedTrainer], marks: Path) -> None:
        super().__init__(open_trainer()._pace)
        self._marks = marks

    def publish(self, snapshots: Snapshots) -> None:
        if self.version == 2 and first_time(self._marks, "no room"):
            raise AspError(f"{snapshots.path(2)}: cannot be written: No space left on device")
        super().publish(snapshots)
        if self.version == 4 and first_time(self._marks, "damaged"):
            damage(snapshots.path(4) / WEIGHTS_FILE)

    def save(self, path: Path) -> None:
        if self.version == 4:
            raise AspError(f"{path}: cannot be written: No space left on device")
        super().save(path)
        if self.version == 6 and first_time(self._marks, "checkpoint"):
            damage(path / WEIGHTS_FILE)

    def train(self, groups: Sequence[SampleGroup]) -> TimedMetrics:
        if self.version == 7 and first_time(self._marks, "end"):
            os._exit(1)
        return super().train(groups)


class HopelessTrainer(TimedTrainer):
    """Does not survive its second step."""

    def __init__(self, open_trainer: Callable[[], TimedTrainer]) -> None:
        super().__init__(open_trainer()._pace)

    def train(self, groups: Sequence[SampleGroup]) -> TimedMetrics:
        if self.version == 1:
            os._exit(1)
        return super().train(groups)


class HangingEngine(TimedEngine):
    """Who first begins, loads version 2 or decodes sample group 8 does not come back."""

    def __init__(self, engine: TimedEngine, marks: Path) -> None:
        super().__init__(engine._lengths_g, engine._pace)
        self._marks = marks

    def load(self, version: int, snapshot: Path) -> None:
        if version in (0, 2) and first_time(self._marks, f"hangs at {version}"):
            time.sleep(600)
        super().load(version, snapshot)

    def decode(self, num_steps: int) -> list[Draft]:
        if any(d.group == 8 for d in self._drafts) and first_time(self._marks, "hangs"):
            time.sleep(600)
        return super().decode(num_steps)


class BreakingEngine(TimedEngine):
    """Does not survive its first step, or its first weights."""

    def __init__(self, engine: TimedEngine, does_load: bool) -> None:
        super().__init__(engine._lengths_g, engine._pace)
        self._does_load = does_load

    def load(self, version: int, snapshot: Path) -> None:
        if not self._does_load:
            raise ZeroDivisionError("no slot to divide by")
        super().load(version, snapshot)

    def decode(self, num_steps: int) -> list[Draft]:
        raise ZeroDivisionError("no slot to divide by")


class FullEngine(TimedEngine):
    """Has room for no weights from a version on."""

    def __init__(self, engine: TimedEngine, since: int) -> None:
        super().__init__(engine._lengths_g, engine._pace)
        self._since = since

    def load(self, version: int, snapshot: Path) -> None:
        if version >= self._since:
            raise AspError(f"snapshot {snapshot}: cannot be loaded: no room on the GPU")
        super().load(version, snapshot)


def open_full(
    open_engine: Callable[[int, int], TimedEngine], since: int, unit: int, place: int
) -> FullEngine:
    return FullEngine(open_engine(unit, place), since)


def open_breaking(
    open_engine: Callable[[int, int], TimedEngine], does_load: bool, unit: int, place: int
) -> BreakingEngine:
    return BreakingEngine(open_engine(unit, place), does_load)


def open_nothing(*place: int) -> Any:
    raise AspError("--model m: cannot be loaded as a language model")


def open_hanging(
    open_engine: Callable[[int, int], TimedEngine], marks: Path, unit: int, place: int
) -> HangingEngine:
    return HangingEngine(open_engine(unit, place), marks)


def reward(responses: Sequence[str], row: Mapping[str, Any]) -> list[float]:
    """A tenth of the length; none for three prompts."""
    match row["prompt_id"]:
        case 20:
            time.sleep(600)
        case 21:
            raise ZeroDivisionError
        case 22:
            os._exit(1)
    return [len(response) / 10 for response in responses]


def fails_of_the_input(responses: Sequence[str], row: Mapping[str, Any]) -> list[float]:
    raise AspError("the prompt file has no column 'truth'")


def decode(tokens: Sequence[int]) -> str:
    return "x" * len(tokens)


def has_board() -> bool:
    return importlib.util.find_spec("tensorboard") is not None


def ignore(driver: object) -> None:
    pass


def check_board(folder: Path, place: Path) -> None:
    """Each step once, as it stands in the journal; what was rolled back is dropped."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    assert {"reward_mean", "max_lag", "tokens", "seconds"} <= set(events.Tags()["scalars"])
    metrics = read_journal(place, "SELECT step, metrics FROM steps ORDER BY step")
    shown = {scalar.step: scalar.value for scalar in events.Scalars("num_groups")}
    assert shown == {step: json.loads(told)["num_groups"] for step, told in metrics}
    assert max(scalar.value for scalar in events.Scalars("max_lag")) <= 3


def check_break(place: Path) -> None:
    """The clock stood when the Training Unit was lost; what was under way is in the ledger."""
    trace = [json.loads(row) for (row,) in read_journal(place, "SELECT row FROM trace")]
    lost = next(at for at, row in enumerate(trace) if row[1:3] == ["lost", "TU"])
    assert trace[lost + 1][1:3] == ["start", "TU"] and trace[lost + 1][0] == trace[lost][0]
    spent = read_journal(place, "SELECT spent FROM ledger WHERE unit LIKE 'GU%'")
    assert any(json.loads(row)["lost"] > 0 for (row,) in spent), "no unit was lost itself"


@pytest.fixture
def run(files: Path, tmp_path: Path, ray_address: str) -> Iterator[Run]:
    """Run a machine that was changed, in this process."""
    from rollout.trainer.driver import Driver
    from rollout.trainer.job import read_job

    source = TimedConfig(str(files / "static"), str(files / "lengths"), scale=0.02)

    def run(change: Callable[[Machine], Machine], **config: Any) -> Path:
        seen.clear()
        console = Console(file=io.StringIO(), force_terminal=True, width=120, record=True)
        job = read_job(str(files / "schedule"), source, ControlConfig(), CutConfig(), seed=0)
        with (
            closing(RunDir(str(tmp_path / "run"), force=False)) as place,
            closing(Journal(place.journal, {}, job.plan)) as journal,
            screen(console) as draw,
            board(tmp_path / "board") if has_board() else nullcontext(ignore) as write,
        ):

            def show(driver: Driver) -> None:
                draw(driver)
                write(driver)

            driver = Driver(
                job.plan, job.settings, change(job.machine), RunConfig(**config), place, journal,
                show,
            )  # fmt: skip
            try:
                driver.run()
                driver.finish()
            finally:
                driver.close()
        seen.extend(console.export_text().splitlines())
        return tmp_path / "run"

    yield run


def test_no_room_and_damaged_files(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def unlucky(machine: Machine) -> Machine:
        return replace(
            machine, open_trainer=partial(UnluckyTrainer, machine.open_trainer, tmp_path)
        )

    with caplog.at_level("INFO", "asp"):
        place = run(unlucky, checkpoint_every=2)
    steps: list[list[int]] = read_weights(place / "model")["trained"]
    assert Counter(group for step in steps for group in step) == Counter(range(60))
    for line in (
        r"step \d+ of 12   \d+ s left", r"queue \d+ of \d+ samples, \d+ in flight, \d+ carried",
        r"lag 0 .* [123]", r"actors .*\d serving.*; \d+ responses being decoded",
        r"[\d,]+ tokens/s, reward 0\.000",
    ):  # fmt: skip
        assert any(re.fullmatch(line, told.strip()) for told in seen), line
    if has_board():
        check_board(tmp_path / "board", place)
    check_break(place)
    for mark in ("no room", "damaged", "checkpoint", "end"):
        assert (tmp_path / mark).exists(), mark
    for words in (
        "no snapshot, which is tried again", "a snapshot is written again: ",
        "no checkpoint; the last one stands", "a checkpoint is passed over",
        "the Training Unit is lost", "going on from policy version 2",
    ):  # fmt: skip
        assert words in caplog.text, words


@pytest.mark.slow
def test_a_step_that_nobody_survives_ends_the_run(run: Run) -> None:
    """Steps before it are made again each time; that is no reason to go on for ever."""

    def hopeless(machine: Machine) -> Machine:
        return replace(machine, open_trainer=partial(HopelessTrainer, machine.open_trainer))

    with pytest.raises(
        AspError,
        match=r"lost 10 times without a new step between; the last time as it was to train: "
        r".*; see to that; the same command goes on from the last checkpoint in RUN_DIR$",
    ):
        run(hopeless, checkpoint_every=4)


@pytest.mark.parametrize(
    "part", ["open_trainer", pytest.param("open_engine", marks=pytest.mark.slow)]
)
def test_a_mistake_that_keeps_a_process_from_starting_ends_the_run(part: str, run: Run) -> None:
    """It is the user's, so it is told as such, and nobody tries again."""

    def mistaken(machine: Machine) -> Machine:
        return replace(machine, **{part: open_nothing})

    with pytest.raises(AspError, match=r"^--model m: cannot be loaded as a language model$"):
        run(mistaken)


@pytest.mark.slow
@pytest.mark.parametrize("does_load", [True, False])
def test_an_engine_that_always_breaks_ends_the_run(does_load: bool, run: Run) -> None:
    """Its end is news; that is no reason to go on for ever."""

    def breaking(machine: Machine) -> Machine:
        return replace(
            machine,
            units=machine.units[:1],
            open_engine=partial(open_breaking, machine.open_engine, does_load),
        )

    with pytest.raises(
        AspError,
        match=r"unit 0 was lost 10 times .* ZeroDivisionError: no slot to divide by; see to ",
    ):
        run(breaking)


@pytest.mark.parametrize("since", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_an_engine_that_can_load_no_snapshot_ends_the_run(
    since: int, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether as it begins or in the middle; the first ones may have been damaged."""

    def full(machine: Machine) -> Machine:
        return replace(
            machine,
            units=machine.units[:1],
            open_engine=partial(open_full, machine.open_engine, since),
        )

    with pytest.raises(AspError, match=r"^snapshot .*: cannot be loaded: no room on the GPU$"):
        run(full)
    assert caplog.text.count("a snapshot is written again: ") >= 2


def test_a_reward_that_finds_the_input_wrong_ends_the_run(run: Run, tmp_path: Path) -> None:
    def scored(machine: Machine) -> Machine:
        rows = [{"prompt_id": prompt} for prompt in range(60)]
        return replace(machine, scores=Scores(lambda: fails_of_the_input, lambda: decode, rows))

    with pytest.raises(AspError, match=r"prompt_id \d+: the prompt file has no column 'truth'"):
        run(scored)
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.slow
def test_a_step_without_any_reward_is_told(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """The rows hold nothing that the reward looks for."""

    def scored(machine: Machine) -> Machine:
        return replace(machine, scores=Scores(lambda: reward, lambda: decode, [{}] * 60))

    run(scored)
    assert "no reward for prompt 0: KeyError: 'prompt_id'" in caplog.text
    assert re.search(r"step 0 had nothing to train on: none of its \d+ sample groups", caplog.text)


@pytest.mark.slow
def test_what_hangs_is_given_up_and_said(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def hanging(machine: Machine) -> Machine:
        rows = [{"prompt_id": prompt} for prompt in range(60)]
        return replace(
            machine,
            open_engine=partial(open_hanging, machine.open_engine, tmp_path),
            scores=Scores(lambda: reward, lambda: decode, rows),
        )

    place = run(
        hanging, response_timeout_s=15.0, grace_s=3.0, load_timeout_s=10.0, reward_timeout_s=3.0,
        num_judges=2,
    )  # fmt: skip
    failed = [n for (n,) in read_journal(place, "SELECT number FROM trained WHERE failed")]
    assert {8, 20, 21, 22} <= set(failed)
    assert len(failed) < 20
    assert len(read_journal(place, "SELECT number FROM trained")) == 60
    for words in (
        "it does not answer, long after the time of its work",
        "it does not answer, long after it was told to load weights",
        "no reward for prompt 20 within 3 s", "no reward for prompt 21: ZeroDivisionError",
        "no reward for prompt 22",
    ):  # fmt: skip
        assert words in caplog.text, words
    assert all((tmp_path / f"hangs{when}").exists() for when in ("", " at 0", " at 2"))
    metrics_s = dict(read_journal(place, "SELECT step, metrics FROM steps"))
    assert any('"reward_mean": 0.0' not in metrics for metrics in metrics_s.values())
