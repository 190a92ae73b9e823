"""All settings that were tried, as a table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rollout.planner.choice import Choice, gain, mean_seconds
from rollout.planner.setting import Setting
from rollout.planner.trials import Outcome, Trials
from rollout.simulator.ledger import Ledger
from rollout.simulator.modes import Mode


@dataclass(frozen=True)
class Summary:
    """Means over runs of one setting; the largest of the lags."""

    iteration_seconds: float
    tokens_per_device_second: float
    mean_lag: float
    largest_lag: int
    queue_mean: float
    idle_training: float
    idle_generation: float
    ledger: Ledger


def summary(trials: Trials, setting: Setting, seeds: range, mode: Mode = "asp") -> Summary:
    """Of the runs under the seeds."""
    runs: list[Outcome] = [trials.run(setting, seed, mode) for seed in seeds]
    measures = [run.measures for run in runs]
    return Summary(
        iteration_seconds=float(np.mean([each.iteration_seconds for each in measures])),
        tokens_per_device_second=float(
            np.mean([each.tokens_per_device_second for each in measures])
        ),
        mean_lag=float(np.mean([each.mean_lag for each in measures])),
        largest_lag=max(each.max_lag for each in measures),
        queue_mean=float(np.mean([each.queue_mean for each in measures])),
        idle_training=float(np.mean([run.idle_training for run in runs])),
        idle_generation=float(np.mean([run.idle_generation for run in runs])),
        ledger=sum((each.ledger for each in measures), Ledger()),
    )


def table_of(trials: Trials, choice: Choice) -> pl.DataFrame:
    """A row a setting, the fastest first; schema Plans."""
    rows = [_row(trials, choice, setting) for setting in trials.settings()]
    keys = ["gain", "training_devices", "actors"]
    return pl.DataFrame(rows, infer_schema_length=None).sort(
        keys, descending=[True, False, False], maintain_order=True
    )


def _row(trials: Trials, choice: Choice, setting: Setting) -> dict[str, Any]:
    seeds = _evidence(trials, choice, setting)
    found = summary(trials, setting, seeds)
    low = high = None
    if len(seeds) > 1:
        ratio, low, high = gain(trials, choice.plain, setting, seeds)
    else:
        ratio = mean_seconds(trials, choice.plain, seeds) / mean_seconds(trials, setting, seeds)
    return {
        "actors": setting.split.num_actors,
        "training_devices": setting.split.training_devices,
        "batch_size": setting.batch_size,
        "slack": setting.slack,
        "prompts_per_group": setting.prompts_per_group,
        "policy": setting.policy,
        "max_rounds": setting.max_rounds,
        "max_lag": setting.max_lag,
        "is_plain": setting == choice.plain,
        "is_best": setting == choice.best,
        "is_knee": setting == choice.knee,
        "num_seeds": len(seeds),
        "iteration_seconds": found.iteration_seconds,
        "gain": ratio,
        "gain_low": low,
        "gain_high": high,
        "tokens_per_device_second": found.tokens_per_device_second,
        "mean_lag": found.mean_lag,
        "largest_lag": found.largest_lag,
        "queue_mean": found.queue_mean,
        "idle_training": found.idle_training,
        "idle_generation": found.idle_generation,
        **found.ledger.shares(),
    }


def _evidence(trials: Trials, choice: Choice, setting: Setting) -> range:
    """The seeds that judge, where it ran under all of them; else one kind of those it ran under."""
    tried = trials.seeds(setting)
    if set(choice.seeds) <= set(tried):
        return choice.seeds
    searched = [seed for seed in tried if seed >= choice.seeds.stop]
    return range(searched[0], searched[-1] + 1) if searched else range(tried[0], tried[0] + 1)
