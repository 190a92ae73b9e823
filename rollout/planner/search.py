"""Which setting is the fastest?

Trying all combinations would take thousands of runs. So, under one seed:

1. every lever is turned alone, from the plain setting;
2. all levers are put where they did best alone, and from the better of that and the best single
   turn it goes downhill, one lever a move, until no move is faster;
3. of all that were tried the fastest few run under more seeds, and the fastest of these is taken.

It finds a setting that no single turn makes faster, not surely the fastest of all.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from rollout.planner.setting import Setting
from rollout.planner.space import LEVERS, Space
from rollout.planner.trials import Trials

NUM_FINALISTS = 6
NUM_SEEDS = 3  # of the finalists, the first included


def fastest(trials: Trials, space: Space, seed: int) -> tuple[Setting, dict[str, Setting]]:
    """The fastest setting, by `NUM_SEEDS` seeds from `seed`.

    Returns:
        It, and for each lever that has another value the best that it does alone.
    """
    alone = _alone(trials, space, seed)
    here = _downhill(trials, space, _start(trials, space, alone, seed), seed)
    seeds = range(seed, seed + NUM_SEEDS)
    searched = [setting for setting in trials.settings() if seed in trials.seeds(setting)]
    tried = sorted(searched, key=lambda setting: (_seconds(trials, setting, seed), setting))
    finalists = {here, space.plain, *tried[:NUM_FINALISTS]}
    best = min(
        sorted(finalists), key=lambda setting: float(np.log(trials.seconds(setting, seeds)).mean())
    )
    return best, alone


def _alone(trials: Trials, space: Space, seed: int) -> dict[str, Setting]:
    """For each lever the fastest of its turns."""
    trials.run(space.plain, seed)
    best: dict[str, Setting] = {}
    for lever, setting in space.singles():
        seconds = _seconds(trials, setting, seed)
        if lever not in best or seconds < _seconds(trials, best[lever], seed):
            best[lever] = setting
    return best


def _start(trials: Trials, space: Space, alone: dict[str, Setting], seed: int) -> Setting:
    """All levers where they gained alone, or the best of them."""
    limit = _seconds(trials, space.plain, seed)
    gained: dict[str, Any] = {
        lever: getattr(alone[lever], lever)
        for lever in LEVERS
        if lever in alone and _seconds(trials, alone[lever], seed) < limit
    }
    together = replace(space.plain, **gained)
    choices = [space.plain, *alone.values()] + [together] * space.holds(together)
    return min(choices, key=lambda setting: _seconds(trials, setting, seed))


def _downhill(trials: Trials, space: Space, here: Setting, seed: int) -> Setting:
    """Move by move to the fastest neighbour."""
    while True:
        best = min(
            [here, *space.neighbours(here)], key=lambda setting: _seconds(trials, setting, seed)
        )
        if best == here:
            return here
        here = best


def _seconds(trials: Trials, setting: Setting, seed: int) -> float:
    return trials.run(setting, seed).seconds
