"""What do generation and training share in a simulation?

The clock, the Control Unit, and what is written down.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rollout.control.inorder import InOrder
from rollout.control.messages import Command, Response, Work
from rollout.control.plan import Plan
from rollout.control.settings import ControlSettings
from rollout.control.unit import ControlUnit
from rollout.simulator.cluster import Cluster
from rollout.simulator.events import Events, Priority
from rollout.simulator.ledger import Ledger
from rollout.simulator.recorder import Recorder
from rollout.simulator.workload import NEVER, Workload


class World:
    """One run's shared state."""

    def __init__(
        self,
        plan: Plan,
        workload: Workload,
        cluster: Cluster,
        settings: ControlSettings,
        carry_out: Callable[[Command], None],
    ) -> None:
        self._lengths_g = list(workload.lengths_g)  # they change while it runs
        self.workload = replace(workload, lengths_g=self._lengths_g)
        self.cluster = cluster
        self.control = ControlUnit(plan, settings)
        self.is_restarting = settings.carry == "restart"
        self.events = Events()
        self.record = Recorder(plan, lambda group: sum(self.workload.lengths_g[group]))
        self.ledger_u = {f"GU{number}": Ledger() for number in range(len(cluster.generation))}
        self.ledger_u["TU"] = Ledger()
        self.version = 0  # published
        self._start_s: dict[tuple[int, int, int], float] = {}  # by round, sample group, sample
        self.do = InOrder(carry_out, self._note_occupancy).do

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return self.events.now_s

    def deadline_s(self, work: Work) -> float:
        """When what has not ended of a minibatch is given up; put down, its clock runs on."""
        wait = self.cluster.timeouts.response_seconds
        if wait is None:
            return math.inf
        starts = (
            self._start_s.setdefault((work.round, group, sample), self.now_s)
            for group, sample, _ in work.responses
        )
        return min(starts) + wait

    def give_up(self, response: Response) -> None:
        """It has timed out: nothing of it is trained on, and started again it ends at once."""
        lengths = list(self._lengths_g[response.group])
        lengths[response.sample] = 0
        self._lengths_g[response.group] = tuple(lengths)
        self.record.timed_out_responses += 1

    def give_up_reward(self, group: int) -> None:
        """It has timed out: nothing of the sample group is trained on."""
        self._lengths_g[group] = (0,) * len(self._lengths_g[group])
        self.record.timed_out_rewards += 1

    def lengthen(self, factor: float) -> None:
        """Let all that was not dispatched be so many times as long."""
        for group in self.control.undispatched():
            self._lengths_g[group] = tuple(
                NEVER if length == NEVER else max(1, round(factor * length))
                for length in self._lengths_g[group]
            )

    def after(self, seconds: float, priority: Priority, happen: "partial[None]") -> None:
        """Let it happen; at once where it takes no time."""
        if seconds:
            self.events.at(self.now_s + seconds, priority, happen)
        else:
            happen()

    def _note_occupancy(self) -> None:
        inventory = self.control.inventory
        self.record.occupancy(self.now_s, inventory.queued, inventory.position)
