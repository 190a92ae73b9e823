"""Train on a schedule, for real.

In: a schedule (or prompts alone, in the modes without one), a model or what stands in for it. Out:
RUN_DIR with the trained weights, the metrics and the trace; while it runs, the journal and the
checkpoints from which the same command goes on.

    asp train schedule.parquet --prompts p.parquet --model DIR --reward m:f -o RUN_DIR
    asp train schedule.parquet --engine timed --cluster c.toml --lengths l.parquet -o RUN_DIR
"""

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from rollout.simulator import words
from rollout.simulator.measures import measure, results_of
from rollout.trainer.config import ControlConfig, CutConfig, ModelConfig, RunConfig, TimedConfig
from rollout.trainer.driver import Driver
from rollout.trainer.job import Job, read_job
from rollout.trainer.journal import Journal
from rollout.trainer.live import view
from rollout.trainer.observed import profile_of
from rollout.trainer.outcome import of_lengths
from rollout.trainer.rundir import RunDir, check_place
from stages.tables.errors import Stopped, log
from stages.tables.io import write_table
from stages.tables.provenance import Provenance
from stages.tables.schemas import Metrics, Profile, Trace, table_name
from stages.workers.ray_cluster import on_ray


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


def _known(source: ModelConfig | TimedConfig) -> dict[str, Any]:
    """What decides a result, without where it lies."""
    others = {"cluster", "lengths", "profile", "prompts", "tokens_per_micro_batch"}
    kept = {name: value for name, value in asdict(source).items() if name not in others}
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
