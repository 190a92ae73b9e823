"""Does the simulator, fitted to one run of the trainer, foretell others?

`asp train --engine timed` runs schedules of recorded lengths on processes, in scaled real time: the
same true lengths as in the simulation. The simulator knows of the machine only what one run's
timings tell, and foretells runs of other schedules, lag bounds and numbers of Generation Units.
Asked for are 10% of the iteration time, 0.2 steps of mean lag and 0.25 batches of mean occupancy of
the Training Queue. No lag may exceed its bound.

Fitted: the cost model to the minibatches that ran undisturbed from dispatch to end, training to
the tokens of the steps, and the mean times of an export, a publication and a reload. What else
takes time in processes is not modelled: calls, and the scheduling of a loaded machine. *Late* tells
how a run was disturbed: seconds that a reload took longer than it should have slept.

    python benchmarks/twin.py

Runs are kept in build/twin, and one that is finished is not run again.
"""

import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from held_out import lengths_of, profile_of
from machine import heading
from scipy.optimize import nnls
from timed_runs import Inputs, train_timed

from rollout.control.plan import Plan
from rollout.control.schedule import plan_of
from rollout.control.settings import ControlSettings
from rollout.control.uniform import uniform_schedule
from rollout.replay import recorded_lengths
from rollout.simulator.cluster import Cluster, GenerationUnit, TrainingUnit
from rollout.simulator.compare import num_iterations
from rollout.simulator.measures import Measures, measure
from rollout.simulator.modes import Mode, in_mode
from rollout.simulator.simulate import simulate
from rollout.simulator.truth import Truth, draw_truth
from rollout.simulator.workload import Workload
from stages.balance.stage import BalanceConfig, balance
from stages.costs.fit import fit_cost_model
from stages.costs.model import CostModel
from stages.partition.budgets import BudgetConfig
from stages.partition.config import PartitionConfig
from stages.partition.stage import partition
from stages.tables.derived import complete_groups
from stages.tables.io import conform
from stages.tables.schemas import Groups

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build/twin"
NUM_PROMPTS, SAMPLES, NUM_EPOCHS = 512, 3, 2
STEP_PROMPTS = 64
BATCH = STEP_PROMPTS * SAMPLES  # samples of a training step
SCALE = 0.25
LIMITS = (0.10, 0.2, 0.25)  # of iteration time, relative; lag [steps]; occupancy [batches]
CLUSTER = Cluster(
    (GenerationUnit(2, 1, 96),), TrainingUnit(2, 1e-3, 1.0, 0.5, 1.0),
    CostModel(0.02, 8e-5, 3e-5, 1e-7), "static", reload_seconds=1.0,
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One run."""

    schedule: str
    units: int
    max_lag: int
    mode: Mode = "asp"

    def on(self, cluster: Cluster) -> Cluster:
        """With its number of units."""
        return replace(cluster, generation=cluster.generation[:1] * self.units)


FITTED = "the fitted run itself"
JOBS = {
    FITTED: Job("varied", 2, 2),
    "other minibatches, lag bound 4": Job("even", 2, 4),
    "other minibatches, 1 unit": Job("even", 1, 4),
    "other minibatches, 3 units": Job("even", 3, 4),
    "same schedule, 3 units": Job("varied", 3, 2),
    "token budgets, lag bound 4": Job("budgets", 2, 4),
    "shuffled": Job("shuffled", 2, 2),
    "shuffled, async": Job("shuffled", 2, 2, "async"),
}


# What the runs read -------------------------------------------------------------------------------


@cache
def lengths() -> pl.DataFrame:
    """Predicted lengths of some prompts, beside a profile of all; both are kept."""
    path = FOLDER / "lengths.parquet"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        profile = profile_of(pl.read_parquet(ROOT / "sample_data/rollouts.parquet"))
        every = lengths_of(str(profile["model"][0]), profile, 0, SAMPLES)
        chosen = np.random.default_rng(0).choice(len(every), NUM_PROMPTS, replace=False)
        profile.write_parquet(FOLDER / "profile.parquet")
        every[np.sort(chosen)].write_parquet(path)
    return pl.read_parquet(path)


@cache
def truth() -> Truth:
    """The lengths that every run generates."""
    profile = pl.read_parquet(FOLDER / "profile.parquet")
    return draw_truth(lengths(), recorded_lengths(lengths(), profile), NUM_EPOCHS, SAMPLES, 0)


def planned(batch_size: int, slack: float, max_lag: int = 0) -> pl.DataFrame:
    """As partition and balance make it; with a lag bound, with token budgets."""
    budgets = BudgetConfig(max_lag, group_size=STEP_PROMPTS // batch_size)
    cut = PartitionConfig(batch_size, slack, SAMPLES, budgets=budgets)
    minibatches, results = partition(lengths(), cut)
    window = results.get("tail_window", 1)
    assert isinstance(window, int)
    deal = BalanceConfig(prompts_per_group=STEP_PROMPTS, epochs=NUM_EPOCHS)
    return balance(minibatches, deal, CostModel(), window)[0]


def shuffled(size: int) -> pl.DataFrame:
    """Equal minibatches in random order."""
    rng, prompts = np.random.default_rng(1), lengths()["prompt_id"].to_numpy()
    unknown = ("tokens", "longest", "seconds", "utilization")
    return pl.concat(
        uniform_schedule(
            rng.permutation(prompts).tolist(), size, STEP_PROMPTS // size, SAMPLES, epoch=epoch
        )
        for epoch in range(NUM_EPOCHS)
    ).with_columns(pl.lit(0.0).alias(f"predicted_{name}") for name in unknown)


def schedule_path(name: str) -> Path:
    return FOLDER / f"{name}.schedule.parquet"


def write_schedules() -> None:
    """All that the jobs name."""
    frames = {
        "varied": planned(16, 0.75), "even": planned(24, 0.25),
        "budgets": planned(16, 0.25, max_lag=4), "shuffled": shuffled(16),
    }  # fmt: skip
    for name, frame in frames.items():
        conform(frame, Groups, name, complete_groups).write_parquet(schedule_path(name))


# A run, and its simulation ------------------------------------------------------------------------


def place_of(name: str) -> Path:
    return FOLDER / name.replace(", ", "-").replace(" ", "-")


def run(name: str) -> Measures:
    """On processes."""
    job = JOBS[name]
    inputs = Inputs(
        schedule_path(job.schedule), FOLDER / "lengths.parquet", FOLDER / "profile.parquet", SCALE
    )
    return train_timed(place_of(name), inputs, job.on(CLUSTER), job.mode, job.max_lag, 0)


def foretold(job: Job, cluster: Cluster) -> Measures:
    """In the simulator."""
    schedule = pl.read_parquet(schedule_path(job.schedule))
    settings = ControlSettings(max_lag=job.max_lag)
    plan, cluster, settings = in_mode(job.mode, plan_of(schedule), job.on(cluster), settings)
    done = simulate(plan, truth().workload(plan), cluster, settings)
    return measure(done, num_iterations(schedule))


# The fit ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """A machine as one run's timings tell it, in real seconds."""

    cluster: Cluster
    median_error: float  # of the seconds of minibatches held out
    num_minibatches: int


def fit(name: str) -> Fitted:
    """Of a finished run."""
    place, job = place_of(name), JOBS[name]
    plan = plan_of(pl.read_parquet(schedule_path(job.schedule)))
    workload = truth().workload(plan)
    trace = pl.read_parquet(place / "trace.parquet")
    metrics = pl.read_parquet(place / "metrics.parquet")
    found = fit_cost_model(undisturbed(trace, plan, workload), name)
    export = written_seconds(place) / plan.num_steps / CLUSTER.training.num_devices
    publication = gap(trace, "trained", "published", "policy_version") - export
    training = replace(
        training_costs(metrics, plan, workload),
        export_seconds=export, publication_seconds=max(publication, 0.0),
    )  # fmt: skip
    reload = gap(trace, "reload", "reloaded", "actor")
    cluster = Cluster(CLUSTER.generation, training, found.model, CLUSTER.engine, reload)
    return Fitted(cluster, found.median_error, found.num_rows)


def undisturbed(trace: pl.DataFrame, plan: Plan, workload: Workload) -> pl.DataFrame:
    """Minibatches dispatched once, which ran to their end: the longest response of each.

    As rows of a profile; a static engine holds all slots until that response ends.
    """
    keys = ("epoch", "minibatch_id")
    once = trace.filter(pl.col("event") == "dispatch").filter(pl.struct(keys).is_unique())
    ends = trace.filter(pl.col("event") == "end")
    ran = once.join(ends, on=(*keys, "actor"), suffix="_end")
    groups = {(head.epoch, head.minibatch_id): head.groups for head in plan.heads}
    rows = []
    for epoch, minibatch, start_s, end_s in ran.select(*keys, "time_s", "time_s_end").iter_rows():
        held = groups[epoch, minibatch]
        tokens = [tokens for group in held for tokens in workload.lengths_g[group]]
        prompts = [
            workload.prompt_tokens_g[group] for group in held for _ in workload.lengths_g[group]
        ]
        name = f"{epoch}-{minibatch}"
        rows.append((name, max(tokens), float(np.mean(prompts)), len(tokens), end_s - start_s))
    columns = ("prompt_hash", "response_tokens", "prompt_tokens", "concurrency", "latency_s")
    return pl.DataFrame(rows, columns, orient="row").with_columns(
        model=pl.lit("timed"), finish_reason=pl.lit("stop"), ttft_s=pl.lit(None, pl.Float64)
    )


def training_costs(metrics: pl.DataFrame, plan: Plan, workload: Workload) -> TrainingUnit:
    """A fixed part and one in proportion to tokens, of steps that are as they were planned."""
    tokens_g = [workload.tokens(group) for group in range(len(plan.step_g))]
    tokens_s = np.bincount(plan.step_g, tokens_g, plan.num_steps)
    seconds_s = (metrics["end_s"] - metrics["start_s"]).to_numpy()
    num_devices = CLUSTER.training.num_devices
    design = np.column_stack((np.ones(plan.num_steps), tokens_s / num_devices))
    size = np.linalg.norm(design, axis=0)
    fixed, token = nnls(design / size, seconds_s)[0] / size
    return TrainingUnit(num_devices, float(token), float(fixed))


def gap(trace: pl.DataFrame, first: str, then: str, key: str) -> float:
    """Mean seconds from an event to the next of another kind with the same key."""
    starts, ends = (trace.filter(pl.col("event") == name) for name in (first, then))
    pairs = starts.join_asof(
        ends.select("time_s", key, then_s="time_s"), on="time_s", by=key, strategy="forward",
        check_sortedness=False,
    )  # fmt: skip
    return float(np.mean((pairs["then_s"] - pairs["time_s"]).drop_nulls().to_numpy()))


def written_seconds(place: Path) -> float:
    """Device-seconds in which the Training Unit wrote, by the run's own ledger."""
    with closing(sqlite3.connect(f"file:{place / 'journal.sqlite'}?mode=ro", uri=True)) as journal:
        (spent,) = journal.execute("SELECT spent FROM ledger WHERE unit = 'TU'").fetchone()
    return float(json.loads(spent)["reload"])


# The result ---------------------------------------------------------------------------------------


def lateness(place: Path) -> float:
    """Seconds that a reload took longer than it should have slept, with its calls."""
    trace = pl.read_parquet(place / "trace.parquet")
    return gap(trace, "reload", "reloaded", "actor") - CLUSTER.reload_seconds * SCALE


def differences(real: Measures, told: Measures) -> tuple[float, float, float]:
    """Foretold less real: iteration time, relative; lag [steps]; occupancy [batches]."""
    return (
        told.iteration_seconds / real.iteration_seconds - 1,
        told.mean_lag - real.mean_lag,
        (told.queue_mean - real.queue_mean) / BATCH,
    )


def main() -> None:
    """Run what is not done, fit, and print."""
    from stages.workers.ray_cluster import on_ray

    write_schedules()
    with on_ray(None, ""):
        real = {name: run(name) for name in JOBS}
    fitted = fit(FITTED)
    print(heading("The simulator, fitted to one run, foretells others"))
    print(f"{NUM_PROMPTS} prompts of sample_data, {SAMPLES} responses each, {NUM_EPOCHS} passes, "
          f"steps of {STEP_PROMPTS} prompts; static, 2 actors a unit,\ntime scaled by {SCALE}. "
          f"Cost model fitted to {fitted.num_minibatches} minibatches, median error held out "
          f"{fitted.median_error:.1%}.\nReal seconds; lag in steps, queue in batches; limits "
          f"{LIMITS[0]:.0%}, {LIMITS[1]}, {LIMITS[2]}.\n")  # fmt: skip
    print("| run | iteration | foretold | off | lag | foretold | off | queue | foretold | off "
          "| largest lag, bound | late | |\n|" + "---|" * 13)  # fmt: skip
    is_within = [print_job(name, real[name], fitted.cluster) for name in JOBS]
    if not all(is_within):
        sys.exit("a lag above its bound")


def print_job(name: str, real: Measures, cluster: Cluster) -> bool:
    """A line; whether no lag exceeded the bound."""
    job = JOBS[name]
    told = foretold(job, cluster)
    off = differences(real, told)
    is_met = all(abs(value) <= limit for value, limit in zip(off, LIMITS, strict=True))
    late = lateness(place_of(name))
    has_bound = job.mode == "asp"
    print(
        f"| {name} | {real.iteration_seconds:.2f} s | {told.iteration_seconds:.2f} s "
        f"| {off[0]:+.1%} | {real.mean_lag:.2f} | {told.mean_lag:.2f} | {off[1]:+.2f} "
        f"| {real.queue_mean / BATCH:.2f} | {told.queue_mean / BATCH:.2f} | {off[2]:+.2f} "
        f"| {real.max_lag}, {job.max_lag if has_bound else 'none'} | {late:.2f} s "
        f"| {'met' if is_met else 'MISSED'} |"
    )
    return not has_bound or real.max_lag <= job.max_lag


if __name__ == "__main__":
    main()
