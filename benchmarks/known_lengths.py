"""Log-normal lengths that are predicted with a stated correlation, in three orders.

A prompt has one response. Training costs a stated multiple of what generation costs at full slots.

Arrays end in an axis legend: _p prompts.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rollout.control.plan import Plan
from rollout.control.uniform import uniform_plan
from rollout.simulator.cluster import Cluster, Engine, GenerationUnit, TrainingUnit
from rollout.simulator.workload import Workload, workload_of
from stages.costs.model import CostModel


@dataclass(frozen=True)
class Setting:
    """Lengths, cluster and costs; what is not said here is a default of the simulator."""

    num_steps: int = 60
    minibatches: int = 16  # of a training step
    size: int = 32  # prompts of a minibatch, and slots of an actor
    sigma: float = 0.5  # of log-tokens
    correlation: float = 1.0  # of predicted and true log-tokens
    num_units: int = 4
    actors: int = 2  # of a unit
    training: float = 1.05  # training over generation at full slots
    engine: Engine = "static"
    costs: CostModel = field(default_factory=lambda: CostModel(0.02, 8e-5))
    reload_seconds: float = 0.3
    switching_seconds: float = 0.0

    @property
    def step_samples(self) -> int:
        """Of a training step."""
        return self.minibatches * self.size

    @property
    def slot_seconds(self) -> float:
        """Of a token at full slots."""
        return self.costs.step_seconds / self.size + self.costs.sequence_seconds

    def tokens(self, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """True lengths, and the prompts in ascending order of what is predicted."""
        rng = np.random.default_rng(seed)
        number = self.num_steps * self.step_samples
        z_p, chance_p = rng.standard_normal((2, number))
        tokens_p = np.maximum(np.exp(6 + self.sigma * z_p).astype(np.int64), 1)
        chance = np.sqrt(1 - self.correlation**2)
        return tokens_p, np.argsort(self.correlation * z_p + chance * chance_p, kind="stable")

    def orders(self, seed: int) -> dict[str, list[int]]:
        """Prompts in dispatch order; balanced: like minibatches, dealt to and fro to the steps.

        In a balanced step the longest minibatch goes first, as nothing may be started late.
        """
        rng = np.random.default_rng(seed)
        ascending_p = self.tokens(seed)[1]
        dealt = ascending_p.reshape(self.minibatches, self.num_steps, self.size).copy()
        dealt[1::2] = dealt[1::2, ::-1]
        steps = rng.permutation(self.num_steps)
        return {
            "shuffled": rng.permutation(len(ascending_p)).tolist(),
            "sorted": ascending_p.tolist(),
            "balanced": dealt[::-1, steps].swapaxes(0, 1).ravel().tolist(),
        }

    def plan(self, order: list[int]) -> Plan:
        """Equal minibatches and steps."""
        return uniform_plan(order, self.size, self.minibatches, 1)

    def workload(self, plan: Plan, seed: int) -> Workload:
        """True lengths."""
        tokens_p = self.tokens(seed)[0].tolist()
        return workload_of(plan, lambda prompt: (tokens_p[prompt],))

    def cluster(self) -> Cluster:
        """Units alike; as many devices train as generate."""
        unit = GenerationUnit(self.actors, 1, self.size)
        training = TrainingUnit(self.num_units * self.actors, self.slot_seconds * self.training)
        return Cluster(
            (unit,) * self.num_units, training, self.costs, self.engine, self.reload_seconds,
            switching_seconds=self.switching_seconds,
        )  # fmt: skip

    def bound(self, seed: int) -> float:
        """Seconds of an iteration below which no order comes: max(generation, training)."""
        seconds = float(self.tokens(seed)[0].sum()) * self.slot_seconds
        return seconds / (self.num_units * self.actors) * max(1.0, self.training) / self.num_steps
