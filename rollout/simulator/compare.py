"""What does a schedule gain on a cluster, beside other ways to run the same prompts?

    hybrid      shuffled; all devices generate, then all train
    async       shuffled; trained on in order of completion, max_lag + 1 steps ahead
    bounded     shuffled; the fastest of the ways in which no lag exceeds max_lag: trained on in
                order of completion, fewer steps ahead, or in order of dispatch
    sorted      minibatches of one size in order of expected length
    fixed       minibatches of one size, balanced as the schedule is
    no budgets  the schedule, each response generated to its end
    schedule
    oracle      what the same settings give when each prompt's mean and longest are known

Those below `bounded` run as the Control Unit would run the schedule. `async` bounds the mean lag
alone, and what is faster at a larger lag is no gain: so there are two to compare with, of which
`bounded` keeps what the schedule keeps. A seed draws the true lengths and the shuffled order; under
one seed every way generates the same responses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rollout.control.plan import Plan
from rollout.control.schedule import plan_of
from rollout.control.settings import ControlSettings
from rollout.orders import fixed_groups, perfect_groups, shuffled_groups, sorted_groups
from rollout.simulator.cluster import Cluster, Engine
from rollout.simulator.measures import Measures, measure
from rollout.simulator.modes import Mode, in_mode
from rollout.simulator.simulate import simulate
from rollout.simulator.truth import Truth, draw_truth
from stages.balance.stage import BalanceConfig
from stages.partition.config import PartitionConfig
from stages.tables.derived import complete_groups
from stages.tables.errors import log
from stages.tables.io import conform
from stages.tables.schemas import IS_HEAD, Groups

Ints = NDArray[np.int64]
Compared = dict[Engine, dict[str, list[Measures]]]  # by engine and way: one a seed

ENGINES: tuple[Engine, ...] = ("static", "continuous")


class Way(NamedTuple):
    """A plan, and how generation and training share the devices."""

    plan: Plan
    mode: Mode


@dataclass(frozen=True)
class Comparison:
    """A schedule, how it was made, and what it is to run on."""

    schedule: pl.DataFrame
    lengths: pl.DataFrame  # complete, of the prompts of the schedule
    recorded: Mapping[int, Ints]  # lengths [tokens] by prompt_id
    cut: PartitionConfig
    deal: BalanceConfig  # epochs as in the schedule
    cluster: Cluster
    settings: ControlSettings

    def run(self, num_seeds: int, first_seed: int) -> Compared:
        """Simulate every way in both engines under each seed."""
        planned = self._planned()
        compared: Compared = {engine: {} for engine in ENGINES}
        for seed in range(first_seed, first_seed + num_seeds):
            log.info("seed %d, %d of %d", seed, seed - first_seed + 1, num_seeds)
            num_samples = max(planned["schedule"].plan.samples_g)
            truth = draw_truth(
                self.lengths, self.recorded, self.deal.epochs, num_samples, seed,
                self.cluster.timeouts,
            )  # fmt: skip
            shuffled = _plan_of(shuffled_groups(self.lengths, self.cut, self.deal, seed))
            for engine in ENGINES:
                found = {
                    "hybrid": self._measure(Way(shuffled, "hybrid"), engine, truth),
                    "async": self._measure(Way(shuffled, "async"), engine, truth),
                    "bounded": self._bounded(shuffled, engine, truth),
                }
                for name, way in (planned | self._oracle(truth)).items():
                    found[name] = self._measure(way, engine, truth)
                for name, measures in found.items():
                    compared[engine].setdefault(name, []).append(measures)
        return compared

    def _planned(self) -> dict[str, Way]:
        """The ways that know nothing of the truth."""
        schedule = plan_of(self.schedule)
        ways = {
            "sorted": Way(_plan_of(sorted_groups(self.lengths, self.cut, self.deal)), "asp"),
            "fixed": Way(_plan_of(fixed_groups(self.lengths, self.cut, self.deal)), "asp"),
        }
        if schedule.num_rounds:
            ways["no budgets"] = Way(schedule.without_budgets(), "asp")
        return ways | {"schedule": Way(schedule, "asp")}

    def _bounded(self, plan: Plan, engine: Engine, truth: Truth) -> Measures:
        """The fastest of those that keep the lag bound; dispatch order always does."""
        ways = [self._measure(Way(plan, "asp"), engine, truth)]
        step, max_lag = max(plan.samples_s()), self.settings.max_lag
        for ahead in range(1, max_lag + 2):
            settings = replace(self.settings, set_point=ahead * step)
            ways.append(self._measure(Way(plan, "async"), engine, truth, settings))
        kept = [measures for measures in ways if measures.max_lag <= max_lag]
        return min(kept, key=lambda measures: measures.iteration_seconds)

    def _oracle(self, truth: Truth) -> dict[str, Way]:
        groups = perfect_groups(self.lengths, truth.samples(), self.cut, self.deal)
        return {"oracle": Way(_plan_of(groups), "asp")}

    def _measure(
        self, way: Way, engine: Engine, truth: Truth, settings: ControlSettings | None = None
    ) -> Measures:
        plan, cluster, settings = in_mode(
            way.mode, way.plan, self.cluster, settings or self.settings
        )
        run = simulate(plan, truth.workload(plan), replace(cluster, engine=engine), settings)
        return measure(run, num_iterations(self.schedule))


def _plan_of(groups: pl.DataFrame) -> Plan:
    return plan_of(conform(groups, Groups, "the groups to compare with", complete_groups))


def num_iterations(schedule: pl.DataFrame) -> int:
    """Batch groups with heads, over all epochs."""
    heads = schedule.filter(IS_HEAD)
    return heads.select("epoch", "group_id").n_unique()
