"""Which setting is worth having?

The fastest of the search is judged anew, under seeds that had no part in finding it, beside the
plain setting and the best turn of each lever alone. From the fastest of these leads a walk to the
*knee*: one lever after the other is set to what costs less, as long as the run stays within the
tolerance of the fastest and is no slower than the plain setting. What costs less, dearest first: a
lower lag bound, for training on older tokens may cost what no simulator shows; fewer devices; no
token budgets, or fewer rounds of them; the plain value of a lever, and the plain setting itself,
for a setting should have a reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rollout.planner.search import fastest
from rollout.planner.setting import Setting
from rollout.planner.space import Space
from rollout.planner.trials import Trials
from rollout.simulator.words import ratio_interval

HOPELESS = 1.1  # slower than the limit under the first seed: the others are not asked


@dataclass(frozen=True)
class Choice:
    """What was found; every setting in it has a run under each of the seeds."""

    plain: Setting
    best: Setting
    knee: Setting
    alone: dict[str, Setting]  # by lever: the best turn of it alone
    seeds: range


def choose(trials: Trials, space: Space, tolerance: float, seeds: range) -> Choice:
    """Search, judge, and walk to the knee.

    Args:
        trials: To run settings in.
        space: What may be run.
        tolerance: Share of time by which the knee may be slower than the best.
        seeds: To judge by; the search takes those after them.
    """
    found, alone = fastest(trials, space, seeds.stop)
    best = min(
        (space.plain, found, *alone.values()),
        key=lambda setting: mean_seconds(trials, setting, seeds),
    )
    limit = min(
        (1 + tolerance) * mean_seconds(trials, best, seeds),
        mean_seconds(trials, space.plain, seeds),
    )
    knee = best
    while cheaper := _first_within(trials, space, knee, limit, seeds):
        knee = cheaper
    return Choice(space.plain, best, knee, alone, seeds)


def mean_seconds(trials: Trials, setting: Setting, seeds: range) -> float:
    """Geometric mean of the runs."""
    return float(np.exp(np.log(trials.seconds(setting, seeds)).mean()))


def gain(trials: Trials, plain: Setting, setting: Setting, seeds: range) -> tuple[float, ...]:
    """Time of the plain setting over that of another, and its interval, paired by seed."""
    return ratio_interval(trials.seconds(plain, seeds), trials.seconds(setting, seeds))


def _first_within(
    trials: Trials, space: Space, knee: Setting, limit: float, seeds: range
) -> Setting | None:
    for cheaper in filter(space.holds, _cheaper(space, knee)):
        if trials.run(cheaper, seeds[0]).seconds > HOPELESS * limit:
            continue
        if mean_seconds(trials, cheaper, seeds) <= limit:
            return cheaper
    return None


def _cheaper(space: Space, setting: Setting) -> Iterator[Setting]:
    """Settings that cost less, the greatest saving of each kind first but for devices."""
    for value in space.values["max_lag"]:
        if value < setting.max_lag:
            yield space.turned(setting, "max_lag", value)
    for split in space.smaller(setting.split):
        yield replace(setting, split=split)
    for value in space.values["max_rounds"]:
        if value < setting.max_rounds:
            yield space.turned(setting, "max_rounds", value)
    for lever in ("policy", "slack", "batch_size", "prompts_per_group"):
        value = getattr(space.plain, lever)
        if value != getattr(setting, lever):
            yield space.turned(setting, lever, value)
    if setting != space.plain and space.takes_no_more(space.plain, setting):
        yield space.plain
