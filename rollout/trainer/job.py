"""What does a run have to do?

In: a schedule (or prompts alone, in the modes without one), and what answers. Out: a job, in which
all of it fits together.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from rollout.control.plan import Plan
from rollout.control.schedule import plan_of
from rollout.control.settings import ControlSettings
from rollout.control.uniform import uniform_schedule
from rollout.origin import recorded_cap
from rollout.simulator.cluster import Cluster
from rollout.simulator.modes import Mode, in_mode
from rollout.simulator.simulate import check_slots
from rollout.simulator.stage import warn_of_idle_actors, warn_of_idle_budgets
from rollout.trainer.config import (
    DEFAULT_CAP,
    ControlConfig,
    CutConfig,
    ModelConfig,
    TimedConfig,
)
from rollout.trainer.machine import Machine
from rollout.trainer.model_machine import model_machine, read_model
from rollout.trainer.redeal import Recipe, recipe_of
from rollout.trainer.rewards.load import check_rows
from rollout.trainer.timed_machine import read_timed, timed_machine
from stages.tables.derived import complete_groups
from stages.tables.errors import AspError, errors_of, first_few
from stages.tables.io import STDIO, Table, read_table
from stages.tables.provenance import Input
from stages.tables.schemas import Groups


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
        with errors_of(name):
            row_p = {prompt: found.rows[prompt] for prompt in dict.fromkeys(plan.prompt_g)}
            check_rows(source.reward, os.getcwd(), row_p)
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
    with errors_of(groups.name):
        plan = plan_of(groups.frame)
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
