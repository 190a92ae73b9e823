"""Train on a schedule, for real.

In: a schedule (or prompts alone, in the modes without one), a model or what stands in for it. Out:
RUN_DIR with the trained weights, the metrics and the trace; while it runs, the journal and the
checkpoints from which the same command goes on.

    asp train schedule.parquet --prompts p.parquet --model DIR --reward m:f -o RUN_DIR
    asp train schedule.parquet --engine timed --cluster c.toml --lengths l.parquet -o RUN_DIR
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rollout.control.plan import Plan
from rollout.control.schedule import plan_of
from rollout.control.settings import ControlSettings
from rollout.control.uniform import uniform_schedule
from rollout.origin import recorded_cap
from rollout.simulator import words
from rollout.simulator.cluster import Cluster
from rollout.simulator.measures import measure, results_of
from rollout.simulator.modes import Mode, in_mode
from rollout.simulator.simulate import check_slots
from rollout.simulator.stage import warn_of_idle_actors, warn_of_idle_budgets
from rollout.trainer.config import (
    DEFAULT_CAP,
    ControlConfig,
    CutConfig,
    ModelConfig,
    RunConfig,
    TimedConfig,
)
from rollout.trainer.driver import Driver
from rollout.trainer.journal import Journal
from rollout.trainer.live import view
from rollout.trainer.machine import Machine
from rollout.trainer.model_machine import model_machine, read_model
from rollout.trainer.observed import profile_of
from rollout.trainer.outcome import of_lengths
from rollout.trainer.redeal import Recipe, recipe_of
from rollout.trainer.rundir import RunDir, check_place
from rollout.trainer.timed_machine import read_timed, timed_machine
from stages.tables.derived import complete_groups
from stages.tables.errors import AspError, Stopped, first_few, log
from stages.tables.io import STDIO, Table, read_table, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Groups, Metrics, Profile, Trace, table_name
from stages.workers.ray_cluster import on_ray


@dataclass(frozen=True)
class Job:
    """A run, read and checked."""

    source: ModelConfig | TimedConfig  # with what the schedule says filled in
    plan: Plan
    settings: ControlSettings
    machine: Machine
    mode: Mode
    footer: tuple[Input, ...]
    answering: str  # name of what answers
    known: pl.DataFrame | None = None  # `profile_of`'s, where a model answers
    recipe: Recipe | None = None  # how epochs are dealt anew


def run(
    schedule: str | None,
    output: str,
    source: ModelConfig | TimedConfig,
    control: ControlConfig,
    cut: CutConfig,
    config: RunConfig,
    seed: int = 0,
    force: bool = False,
    is_shown: bool = True,
) -> None:
    """Read, train, write the metrics and the trace, say what it came to.

    Raises:
        AspError: Bad input, or the run can't go on; the same command goes on from its checkpoint.
        Stopped: By Ctrl-C; likewise.
    """
    check_place(Path(output).absolute(), force)
    job = read_job(schedule, source, control, cut, seed)
    settings: dict[str, Any] = {"mode": job.mode, **asdict(job.settings), **_known(job.source)}
    if schedule is None:
        settings |= asdict(cut)
    if job.recipe is not None:
        settings["refresh_each_epoch"] = True
    hashes = {item.role: item.sha256 for item in job.footer}
    try:
        with (
            on_ray(config.address, "leave --ray out"),  # first: where it fails, nothing is left
            closing(RunDir(output, force)) as place,
            closing(
                Journal(place.journal, settings | hashes | {"seed": seed}, job.plan)
            ) as journal,
            view(is_shown, place.path) as show,
        ):
            driver = Driver(
                job.plan, job.settings, job.machine, config, place, journal, show, job.recipe
            )  # fmt: skip
            try:
                driver.run()
            finally:
                driver.close()
            _write(driver, job, settings, seed)
            driver.finish()
        log.info("the trained weights are in %s", place.model)
    except KeyboardInterrupt:
        raise Stopped(
            f"stopped; the same command goes on in {output} from its checkpoint"
        ) from None


def read_job(
    schedule: str | None,
    source: ModelConfig | TimedConfig,
    control: ControlConfig,
    cut: CutConfig,
    seed: int,
) -> Job:
    """Read what a run needs.

    Raises:
        AspError: Something is bad, or does not fit together.
    """
    groups = None if schedule is None else read_table(schedule, Groups, complete_groups)
    footer = [] if groups is None else [Input("schedule", groups.sha256, groups.provenance)]
    lengths: Table | None
    if isinstance(source, TimedConfig):
        timed = read_timed(source)
        ids, name = timed.lengths.frame["prompt_id"].to_list(), timed.lengths.name
        mode = control.mode or timed.mode
        plan = _plan(groups, ids, name, mode, cut, seed)
        settings = _settings(control, timed.settings)
        _warn(plan, mode, settings, timed.cluster.num_actors)
        machine, plan, settings = timed_machine(timed, plan, mode, settings, source.scale, seed)
        footer += timed.footer
        lengths, texts, answering = timed.lengths, dict.fromkeys(plan.prompt_g, ""), "timed"
        known = None
    else:
        cap = source.max_response_tokens or recorded_cap(groups) or DEFAULT_CAP
        source = replace(source, max_response_tokens=cap)
        found = read_model(source)
        ids, name = list(range(len(found.rows))), found.prompts.name
        mode = control.mode or "asp"
        plan = _plan(groups, ids, name, mode, cut, seed)
        settings = _settings(control, ControlSettings())
        machine = model_machine(found, source, seed)
        cluster = Cluster(machine.units)
        _warn(plan, mode, settings, cluster.num_actors)
        plan, _, settings = in_mode(mode, plan, cluster, settings)
        footer += found.footer
        lengths, texts, answering = found.lengths, found.texts(plan), Path(source.model).name
        known = found.known(cap)
    if machine.is_static:
        check_slots(plan, machine.units)
    recipe = None
    if control.refresh_each_epoch:
        if groups is None or mode == "async":
            raise AspError(
                "--refresh-each-epoch deals the epochs of a schedule anew; without a schedule, and "
                "in mode async, there is none to deal: leave it out"
            )
        if lengths is None or source.lengths in (None, STDIO):
            raise AspError("--refresh-each-epoch needs --lengths, a file; give its name")
        recipe = recipe_of(groups, lengths, str(source.lengths), texts, answering, seed)
    return Job(source, plan, settings, machine, mode, tuple(footer), answering, known, recipe)


def _plan(
    groups: Table | None, prompts: Sequence[int], name: str, mode: Mode, cut: CutConfig, seed: int
) -> Plan:
    if groups is None:
        if mode == "asp":
            raise AspError(
                "mode asp follows a schedule; give one (`asp emit` writes it), or --mode async "
                "or hybrid"
            )
        return plan_of(_shuffled(prompts, cut, seed))
    try:
        plan = plan_of(groups.frame)
    except AspError as error:
        raise AspError(f"{groups.name}: {error}") from None
    missing = sorted(set(plan.prompt_g).difference(prompts))
    if missing:
        raise AspError(
            f"{name}: lacks {len(missing)} of the prompts that {groups.name} schedules, first "
            f"prompt_id {first_few(missing, 1)}; give the file that the schedule was made from"
        )
    return plan


def _shuffled(prompts: Sequence[int], cut: CutConfig, seed: int) -> pl.DataFrame:
    """All prompts in each epoch, in an order of its own, cut alike."""
    rng = np.random.default_rng(seed)
    return pl.concat(
        uniform_schedule(
            rng.permutation(prompts).tolist(), cut.batch_size, cut.group_size,
            cut.samples_per_prompt, epoch=epoch,
        )
        for epoch in range(cut.epochs)
    )  # fmt: skip


def _settings(control: ControlConfig, default: ControlSettings) -> ControlSettings:
    return replace(
        default,
        max_lag=default.max_lag if control.max_lag is None else control.max_lag,
        refresh=control.refresh or default.refresh,
        pacing=control.pacing or default.pacing,
        carry=control.carry,
    )


def _warn(plan: Plan, mode: Mode, settings: ControlSettings, num_actors: int) -> None:
    warn_of_idle_budgets(plan, mode, settings.max_lag)
    warn_of_idle_actors(plan, num_actors)


def _known(source: ModelConfig | TimedConfig) -> dict[str, Any]:
    """What decides a result, without where it lies."""
    files = {"cluster", "lengths", "profile", "prompts"}
    kept = {name: value for name, value in asdict(source).items() if name not in files}
    if isinstance(source, ModelConfig):
        kept["model"] = Path(source.model).resolve().name
    return kept


def _write(driver: Driver, job: Job, settings: dict[str, Any], seed: int) -> None:
    done = driver.accounts.run()
    num_iterations = len({(head.epoch, job.plan.group_id_s[head.step]) for head in job.plan.heads})
    measures = measure(done, num_iterations)
    measured = pl.DataFrame([m for row, m in driver.journal.steps() if row is not None])
    metrics = done.steps.hstack(measured.select(pl.exclude(done.steps.columns)))
    results = results_of(done, measures)
    tables = [(metrics, Metrics, "metrics"), (done.trace, Trace, "trace")]
    if job.known is not None:
        rollouts = profile_of(driver.journal.made(), job.known, job.answering)
        tables.append((rollouts, Profile, "rollouts"))
    for frame, schema, name in tables:
        provenance = Provenance(
            "train", f"{table_name(schema)}/1", settings, seed, results, job.footer
        )
        write_table(frame, schema, str(driver.place.path / f"{name}.parquet"), provenance, True)
    for line in words.of_run(measures, len(done.steps), done.seconds):
        log.info(line)
    for line in of_lengths(driver.journal.lengths(), job.plan, job.settings.carry):
        log.info(line)
    if done.failed:
        log.warning(
            "%d sample groups were not trained on, for a response or a reward never came",
            len(done.failed),
        )
