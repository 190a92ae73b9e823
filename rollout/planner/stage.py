"""How should a cluster's devices be shared, and how should the schedule for it be made?

In: a lengths table, a cluster file; a profile, where the true lengths are to be recorded ones.
Out: the plans table, a row a setting tried; in words the best, the knee, and why.

    asp plan lengths.parquet --cluster cluster.toml -o plan.parquet
"""

import time
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np
import polars as pl

from rollout.planner import words
from rollout.planner.choice import choose
from rollout.planner.space import PROMPTS_PER_GROUP, Wishes, space_of
from rollout.planner.table import table_of
from rollout.planner.trials import Task, Trials
from rollout.simulator.clusterfile import ClusterFile, read_cluster
from rollout.simulator.observed import read_observed
from stages.lengths import table as lengths_table
from stages.tables.errors import log
from stages.tables.io import check_output, read_table, write_table
from stages.tables.progress import progress
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Lengths, Plans

FEWEST_STEPS = 12  # of a run, so that filling and draining the queue do not rule it


@dataclass(frozen=True)
class PlanConfig:
    """What to try, and what is good enough."""

    wishes: Wishes = field(default_factory=Wishes)
    samples_per_prompt: int | None = None  # None: as the lengths table says
    tolerance: float = 0.03  # share of time that the knee may take beyond the best
    num_seeds: int = 5
    seed: int = 0


def run(
    lengths: str, profile: str | None, cluster: str, output: str | None, config: PlanConfig,
    force: bool,
) -> str:  # fmt: skip
    """Read, search, write the table, and render what was found as text."""
    if output is not None:
        check_output(output, force)
    start_s = time.perf_counter()
    task, _, footer = read_task(lengths, profile, cluster, config)
    space = space_of(task.found, config.wishes, task.samples_per_prompt, len(task.lengths))
    seeds = range(config.seed, config.seed + config.num_seeds)
    with progress("runs of a plan", None) as done:
        trials = Trials(task, lambda: done(1))
        choice = choose(trials, space, config.tolerance, seeds)
        text = words.of_choice(trials, choice, task, lengths)
    log.info(
        "%d settings in %d runs of %d prompts, %d times each: %.0f s",
        len(trials.settings()), trials.num_runs, len(task.lengths), task.epochs,
        time.perf_counter() - start_s,
    )  # fmt: skip
    if output is not None:
        provenance = Provenance(
            "plan", "plans/1", seed=config.seed, inputs=footer,
            config=asdict(config) | {"cluster": asdict(task.found.cluster)},
            results={"plain": asdict(choice.plain), "best": asdict(choice.best),
                     "knee": asdict(choice.knee)},
        )  # fmt: skip
        write_table(table_of(trials, choice), Plans, output, provenance, force)
    return text


def read_task(
    lengths: str, profile: str | None, cluster: str, config: PlanConfig
) -> tuple[Task, str, tuple[Input, ...]]:
    """Read and match the inputs; the name of the lengths table, and what a footer says of all.

    Raises:
        AspError: One is bad, or the profile is of other prompts.
    """
    found = read_cluster(cluster)
    if found.mode != "asp":
        log.warning("%s: mode is %s; plans are made for mode asp", found.name, found.mode)
    if found.disturbances:
        log.warning("%s: plans are made without its disturbances", found.name)
    complete = partial(lengths_table.complete, samples_per_prompt=config.samples_per_prompt)
    table = read_table(lengths, Lengths, complete)
    footer = [Input("lengths", table.sha256, table.provenance)]
    frame, epochs = _enough(table.frame, config)
    recorded, of_profile = read_observed(profile, frame, table.name, f"the prompts of {table.name}")
    footer += of_profile
    task = Task(
        lengths=frame,
        recorded=recorded,
        samples_per_prompt=int(frame["samples_per_prompt"].max()),  # type: ignore[arg-type]
        epochs=epochs,
        found=found,
        kv_tokens=_kv_tokens(found, frame),
    )
    return task, table.name, (*footer, *found.inputs)


def _enough(lengths: pl.DataFrame, config: PlanConfig) -> tuple[pl.DataFrame, int]:
    """As many prompts, at random, or passes over them, as make `FEWEST_STEPS` training steps."""
    per_group = max(config.wishes.prompts_per_group or (PROMPTS_PER_GROUP,))
    wanted = FEWEST_STEPS * min(per_group, len(lengths))
    if wanted >= len(lengths):
        return lengths, -(-wanted // len(lengths))
    rows = np.random.default_rng(config.seed).choice(len(lengths), wanted, replace=False)
    log.info("planning on %d of the %d prompts, drawn at random", wanted, len(lengths))
    return lengths[np.sort(rows)], 1


def _kv_tokens(found: ClusterFile, lengths: pl.DataFrame) -> int | None:
    """Memory that a static minibatch must fit into, where it and the prompts are known."""
    actor = found.derivation.actor
    is_known = found.cluster.engine == "static" and not lengths["prompt_tokens"].null_count()
    return actor.kv_tokens if actor is not None and is_known else None
