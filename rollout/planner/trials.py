"""What does a setting take, under given true lengths?

The stages run in process: partition, balance, then the simulator under the Control Unit. All is
kept, so a setting is tried once under a seed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rollout.control.plan import Plan
from rollout.control.schedule import plan_of
from rollout.orders import shuffled_groups
from rollout.planner.setting import Setting, Split
from rollout.planner.space import split_of
from rollout.simulator.cluster import Cluster
from rollout.simulator.clusterfile import ClusterFile
from rollout.simulator.ledger import Ledger
from rollout.simulator.measures import Measures, measure
from rollout.simulator.modes import Mode, in_mode
from rollout.simulator.simulate import simulate
from rollout.simulator.truth import Truth, draw_truth
from stages.balance.config import BalanceConfig
from stages.balance.stage import balance
from stages.partition.budgets import BudgetConfig
from stages.partition.config import PartitionConfig
from stages.partition.stage import partition
from stages.tables.derived import complete_groups
from stages.tables.errors import errors_of
from stages.tables.io import conform
from stages.tables.schemas import Groups

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """Of one run."""

    seconds: float  # of all prompts and passes, the queue's filling and draining included
    measures: Measures
    idle_training: float  # share of its device time without a complete step
    idle_generation: float  # share of its device time without work


@dataclass(frozen=True)
class Task:
    """What is to be planned for."""

    lengths: pl.DataFrame  # complete
    recorded: Mapping[int, Ints]  # lengths [tokens] by prompt_id
    samples_per_prompt: int
    epochs: int
    found: ClusterFile
    kv_tokens: int | None  # that a static minibatch must fit into


class Trials:
    """Runs, kept by setting and seed."""

    def __init__(self, task: Task, tell: Callable[[], None] = lambda: None) -> None:
        self._task = task
        self._tell = tell
        self._outcomes: dict[tuple[Setting, Mode, int], Outcome] = {}
        self._plans: dict[tuple[object, ...], Plan] = {}
        self._truths: dict[int, Truth] = {}

    @property
    def num_runs(self) -> int:
        """Simulated so far."""
        return len(self._outcomes)

    def settings(self) -> list[Setting]:
        """All that were tried as schedules, ascending."""
        return sorted({setting for setting, mode, _ in self._outcomes if mode == "asp"})

    def seeds(self, setting: Setting) -> list[int]:
        """Under which it was tried as a schedule."""
        return sorted(seed for s, mode, seed in self._outcomes if (s, mode) == (setting, "asp"))

    def run(self, setting: Setting, seed: int, mode: Mode = "asp") -> Outcome:
        """Simulate a setting; in mode `async` its devices, prompts shuffled, without a schedule."""
        key = setting, mode, seed
        if key not in self._outcomes:
            self._outcomes[key] = self._simulated(setting, seed, mode)
            self._tell()
        return self._outcomes[key]

    def seconds(self, setting: Setting, seeds: range, mode: Mode = "asp") -> NDArray[np.float64]:
        """Of the runs under each seed."""
        return np.array([self.run(setting, seed, mode).seconds for seed in seeds])

    def _simulated(self, setting: Setting, seed: int, mode: Mode) -> Outcome:
        task = self._task
        plan = self._plan(setting) if mode == "asp" else self._shuffled(setting, seed)
        settings = replace(task.found.settings, max_lag=setting.max_lag)
        plan, cluster, settings = in_mode(
            mode, plan, cluster_at(task.found, setting.split), settings
        )
        if seed not in self._truths:
            self._truths[seed] = draw_truth(
                task.lengths, task.recorded, task.epochs, task.samples_per_prompt, seed,
                task.found.cluster.timeouts,
            )  # fmt: skip
        with errors_of(task.found.name):
            run = simulate(plan, self._truths[seed].workload(plan), cluster, settings)
        num_prompts = len(task.lengths) * task.epochs
        generating = [spent for unit, spent in run.ledger_u.items() if unit != "TU"]
        return Outcome(
            seconds=run.seconds,
            measures=measure(run, max(1, round(num_prompts / setting.prompts_per_group))),
            idle_training=run.ledger_u["TU"].shares()["sorting"],
            idle_generation=sum(generating, Ledger()).shares()["sorting"],
        )

    def _cut(self, setting: Setting) -> PartitionConfig:
        budgets = BudgetConfig(
            max_lag=setting.max_lag if setting.max_rounds else 0,
            max_rounds=max(1, setting.max_rounds),
            group_size=setting.group_size,
        )
        return PartitionConfig(
            batch_size=setting.batch_size,
            slack=setting.slack,
            samples_per_prompt=self._task.samples_per_prompt,
            kv_tokens=self._task.kv_tokens,
            cost_model=self._task.found.cluster.cost_model,
            budgets=budgets,
        )

    def _deal(self, setting: Setting) -> BalanceConfig:
        return BalanceConfig(
            prompts_per_group=setting.prompts_per_group,
            policy=setting.policy,
            epochs=self._task.epochs,
        )

    def _plan(self, setting: Setting) -> Plan:
        """The same whatever the split, and without budgets whatever the lag bound."""
        cut, deal = self._cut(setting), self._deal(setting)
        key = cut, deal
        if key not in self._plans:
            minibatches, results = partition(self._task.lengths, cut)
            window = int(results.get("tail_window", 1))  # type: ignore[call-overload]
            groups, _ = balance(minibatches, deal, cut.cost_model, window)
            self._plans[key] = _plan_of(groups)
        return self._plans[key]

    def _shuffled(self, setting: Setting, seed: int) -> Plan:
        cut = replace(self._cut(setting), budgets=BudgetConfig())
        return _plan_of(shuffled_groups(self._task.lengths, cut, self._deal(setting), seed))


def _plan_of(groups: pl.DataFrame) -> Plan:
    return plan_of(conform(groups, Groups, "the groups to try", complete_groups))


def cluster_at(found: ClusterFile, split: Split) -> Cluster:
    """The cluster with its devices shared otherwise; actors are alike wherever they stand."""
    cluster = found.cluster
    if split == split_of(found):
        return cluster
    unit = replace(cluster.generation[0], num_actors=split.num_actors)
    training = replace(cluster.training, num_devices=split.training_devices)
    return replace(cluster, generation=(unit,), training=training)
