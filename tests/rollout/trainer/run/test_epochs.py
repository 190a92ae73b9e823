"""Epochs dealt anew while a run goes on, and when it is broken off in between."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from rollout.control.messages import Train
from rollout.control.plan import Head, Plan
from rollout.trainer.config import ControlConfig, CutConfig, RunConfig, TimedConfig
from rollout.trainer.engines.timed import read_weights
from rollout.trainer.journal import Journal
from rollout.trainer.resume import Checkpoint
from rollout.trainer.rundir import RunDir
from rollout.trainer.samples import SampleGroup
from rollout.trainer.timed import TimedMetrics, TimedTrainer
from stages.balance import stage as balance
from stages.balance.config import BalanceConfig
from stages.partition import stage as partition
from stages.partition.config import PartitionConfig
from stages.tables.errors import AspError
from stages.tables.prompts import prompt_hash
from tests.rollout.trainer.run.conftest import lengths_of, read_journal

NUM_EPOCHS, NUM_PROMPTS = 3, 36
STEPS_AN_EPOCH = 3  # of 4 minibatches of 3 prompts
Run = Callable[..., Path]


class MortalTrainer(TimedTrainer):
    """Does not survive the first try of some steps."""

    def __init__(self, open_trainer: Callable[[], TimedTrainer], fatal: set[int], marks: Path):
        super().__init__(open_trainer()._pace)
        self._fatal, self._marks = fatal, marks

    def train(self, groups: Sequence[SampleGroup]) -> TimedMetrics:
        mark = self._marks / str(self.version)
        if self.version in self._fatal and not mark.exists():
            mark.touch()
            os._exit(1)
        return super().train(groups)


@pytest.fixture
def source(files: Path, tmp_path: Path) -> TimedConfig:
    """Three epochs of lengths that were predicted all alike."""
    lengths_of(NUM_PROMPTS).with_columns(
        prompt_hash=pl.col("prompt_id").cast(pl.String).map_elements(prompt_hash, pl.String)
    ).write_parquet(tmp_path / "lengths")  # fmt: skip
    cut = PartitionConfig(batch_size=3, slack=0.0, samples_per_prompt=2)
    partition.run(str(tmp_path / "lengths"), str(tmp_path / "minibatches"), cut)
    deal = BalanceConfig(group_size=4, epochs=NUM_EPOCHS)
    balance.run(str(tmp_path / "minibatches"), str(tmp_path / "schedule"), deal)
    return TimedConfig(str(files / "static"), str(tmp_path / "lengths"), scale=0.02)


@pytest.fixture
def run(source: TimedConfig, tmp_path: Path, ray_address: str) -> Run:
    """A whole run in this process."""
    from rollout.trainer.driver import Driver
    from rollout.trainer.job import read_job

    def run(name: str, control: ControlConfig, fatal: frozenset[int] = frozenset()) -> Path:
        job = read_job(str(tmp_path / "schedule"), source, control, CutConfig(), seed=0)
        machine = replace(
            job.machine,
            open_trainer=partial(MortalTrainer, job.machine.open_trainer, fatal, tmp_path),
        )
        with (
            closing(RunDir(str(tmp_path / name), force=False)) as place,
            closing(Journal(place.journal, {}, job.plan)) as journal,
        ):
            driver = Driver(
                job.plan, job.settings, machine, RunConfig(checkpoint_every=2), place, journal,
                lambda driver: None, job.recipe,
            )  # fmt: skip
            try:
                driver.run()
                driver.finish()
            finally:
                driver.close()
        return tmp_path / name

    return run


def refreshed(place: Path) -> dict[str, bytes]:
    """All that was written of the lengths of epochs."""
    folder = place / "refreshed"
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def check_once(place: Path) -> None:
    steps: list[list[int]] = read_weights(place / "model")["trained"]
    assert Counter(group for step in steps for group in step) == Counter(
        range(NUM_EPOCHS * NUM_PROMPTS)
    )
    prompts = read_journal(place, "SELECT prompt, epoch FROM groups JOIN trained USING (number)")
    assert len(set(prompts)) == NUM_EPOCHS * NUM_PROMPTS


@pytest.mark.slow
def test_a_run_that_is_broken_off_deals_as_one_that_is_not(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """In turns no chance is in the versions, so the files are the same to the byte.

    Lost at step 4 it goes back to version 4, behind the deal of epoch 1 at 3; lost at step 6, as
    epoch 2 is dealt; lost at step 7 it goes back to 6, and that deal stands.
    """
    hybrid = ControlConfig("hybrid", refresh_each_epoch=True)
    with caplog.at_level("INFO", "asp"):
        whole = run("whole", hybrid)
    check_once(whole)
    files = refreshed(whole)
    names = ("groups.parquet", "lengths.parquet", "observed.parquet")
    assert set(files) == {
        "epoch_0/lengths.parquet",
        *(f"epoch_{epoch}/{name}" for epoch in (1, 2) for name in names),
        *(f"epoch_3/{name}" for name in names[1:]),
    }
    assert "epoch 2 is dealt anew, by the responses of 6 steps" in caplog.text
    for epoch in (1, 2):
        groups = pl.read_parquet(whole / f"refreshed/epoch_{epoch}/groups.parquet")
        first = epoch * STEPS_AN_EPOCH
        for group_id, prompts in groups.group_by("group_id").agg("prompt_ids").iter_rows():
            dealt = {prompt for ids in prompts for prompt in ids}
            trained = read_journal(
                whole,
                "SELECT prompt FROM groups JOIN trained USING (number) "
                f"WHERE step = {first + group_id}",
            )
            assert {prompt for (prompt,) in trained} == dealt
    seen = pl.read_parquet(whole / "refreshed/epoch_2/observed.parquet")
    assert seen["policy_version"].min() == STEPS_AN_EPOCH, "those before counted for epoch 1"
    broken = run("broken", hybrid, frozenset({4, 6, 7}))
    check_once(broken)
    assert len(read_journal(broken, "SELECT * FROM sessions")) == 4
    assert refreshed(broken) == files


@pytest.mark.slow
def test_steps_within_the_lag_bound_count_an_epoch_later(run: Run) -> None:
    place = run("run", ControlConfig("asp", max_lag=1, refresh_each_epoch=True), frozenset({2, 5}))
    check_once(place)
    deals = dict(read_journal(place, "SELECT epoch, version FROM deals"))
    assert deals == {1: STEPS_AN_EPOCH - 1, 2: 2 * STEPS_AN_EPOCH - 1, 3: 3 * STEPS_AN_EPOCH}
    rows = pl.concat(
        pl.read_parquet(place / f"refreshed/epoch_{epoch}/observed.parquet") for epoch in deals
    )
    assert len(rows) == 2 * NUM_EPOCHS * NUM_PROMPTS, "each response once"
    lags = read_journal(place, "SELECT max(lag) FROM trained")
    assert lags[0][0] <= 1


def test_an_epoch_that_could_not_be_dealt_stays_as_it_was_trained_on(
    source: TimedConfig, tmp_path: Path, ray_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What refused the heads of epoch 1 is gone when the run goes back, behind its first step.

    Epoch 2 then goes on from the lengths of epoch 0, with all steps since.
    """
    from rollout.trainer.epochs import Epochs
    from rollout.trainer.job import read_job
    from rollout.trainer.waiting import Waiting

    control = ControlConfig("hybrid", refresh_each_epoch=True)
    job = read_job(str(tmp_path / "schedule"), source, control, CutConfig(), seed=0)
    refusals = ["too large"]

    def check(plan: Plan) -> None:
        if refusals:
            raise AspError(refusals.pop())

    def train(step: int) -> None:
        groups = tuple(g for g, planned in enumerate(job.plan.step_g) if planned == step)
        tokens = [([10 + group % 40] * 2,) * 2 for group in groups]
        journal.trained(Train(step, groups, (0,) * len(groups), frozenset()), tokens, None, {})

    def deal(version: int) -> list[tuple[int, Sequence[Head] | None]]:
        told: list[tuple[int, Sequence[Head] | None]] = []
        assert epochs.trained(version, lambda *dealt: told.append(dealt)) == version // 3
        while epochs.is_dealing:
            waiting.next(1.0)
        return told

    with (
        closing(RunDir(str(tmp_path / "run"), force=False)) as place,
        closing(Journal(place.journal, {}, job.plan)) as journal,
    ):
        waiting = Waiting()
        epochs = Epochs(waiting, journal, place, job.plan, 0, job.recipe, check)
        assert epochs.restore(0, journal.begin(Checkpoint())) == job.plan
        for step in range(3):
            train(step)
        assert deal(3) == [(1, None)]
        assert "epoch 1 stays as scheduled: too large" in caplog.text
        train(3)
        assert epochs.restore(4, journal.begin(Checkpoint(4, 1))) == job.plan
        for step in (4, 5):
            train(step)
        [(epoch, heads)] = deal(6)
        assert epoch == 2 and heads is not None
        seen = pl.read_parquet(place.refreshed(2) / "observed.parquet")
        assert seen["policy_version"].unique().sort().to_list() == list(range(6))
        assert epochs.restore(6, journal.begin(Checkpoint(6, 2))) == job.plan.redealt(2, heads)
        assert epochs.restore(2, journal.begin(Checkpoint(2, 1))) == job.plan
        train(2)
        [(epoch, heads)] = deal(3)
        assert epoch == 1 and heads is not None, "a failure is forgotten with the steps before it"


def test_what_cannot_be_dealt_is_refused(source: TimedConfig, tmp_path: Path) -> None:
    from rollout.trainer.job import read_job

    control, cut = ControlConfig("asp", refresh_each_epoch=True), CutConfig()
    pl.read_parquet(tmp_path / "schedule").write_parquet(tmp_path / "silent")
    with pytest.raises(AspError, match="does not tell how it was made"):
        read_job(str(tmp_path / "silent"), source, control, cut, 0)
    small = CutConfig(samples_per_prompt=2, batch_size=2)
    with pytest.raises(AspError, match="there is none to deal: leave it out"):
        read_job(None, source, replace(control, mode="hybrid"), small, 0)
    table = pl.read_parquet(tmp_path / "lengths")
    table.with_columns(prompt_hash=pl.lit(None, pl.String)).write_parquet(tmp_path / "unknown")
    with pytest.raises(AspError, match=r"prompt_id \d+ has prompt_hash None, which is not"):
        read_job(str(tmp_path / "schedule"), replace(source, lengths=str(tmp_path / "unknown")),
                 control, cut, 0)  # fmt: skip
    recipe = read_job(str(tmp_path / "schedule"), source, control, cut, 0).recipe
    assert recipe is not None
    assert (recipe.samples_per_prompt, recipe.cut.batch_size, recipe.deal.group_size) == (2, 3, 4)
