"""What is written down while a run goes on, and what was it all?

The simulator's recorder takes events in real time; what is new goes to the journal several times a
second. Device-seconds are measured by the actors themselves; those of an actor that is lost, or
whose work is, count as lost from its last news on. The Training Unit measures its steps and what it
writes; the rest of the time it waited.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import polars as pl

from rollout.control.messages import Train
from rollout.control.plan import Plan
from rollout.simulator.cluster import GenerationUnit
from rollout.simulator.ledger import Ledger
from rollout.simulator.recorder import STEPS, Recorder, trace_of
from rollout.simulator.run import Occupancy, Run
from rollout.trainer.exchange import State
from rollout.trainer.journal import Journal
from rollout.trainer.stock import Stock


class Accounts:
    """Events, occupancy and ledgers of a run, over all its sessions."""

    def __init__(
        self, journal: Journal, plan: Plan, units: Sequence[GenerationUnit], num_training: int
    ) -> None:
        """Go on from what the journal has.

        Args:
            journal: Of the run.
            plan: Whose sample groups are numbered.
            units: The Generation Units.
            num_training: Devices of the Training Unit; 0: those of the actors, in turn.
        """
        self._journal = journal
        self._units = units
        self._num_training = num_training
        self._past_s = journal.seconds()
        self._begin_s: float | None = None  # None: the clock stands
        self._past_u = {unit: Ledger(**spent) for unit, spent in journal.spent_u().items()}
        if "TU" in self._past_u:
            self._past_u["TU"].sorting = 0.0  # what it waited is what is left of the time
        self._num_kept = self._num_changes = 0
        self.stock: Stock | None = None
        self.record = Recorder(plan, self._tokens)
        self.record.changes[:] = [(self.now_s, 0, 0)]

    @property
    def now_s(self) -> float:
        """Of the run; the start of its processes does not count, nor the time when it is not up."""
        return self._past_s + (0.0 if self._begin_s is None else time.monotonic() - self._begin_s)

    def start_clock(self) -> None:
        """Something can be generated."""
        if self._begin_s is None:
            self._begin_s = time.monotonic()

    def stop_clock(self) -> None:
        """Nothing can, before a unit begins again."""
        self._past_s, self._begin_s = self.now_s, None

    def trained(self, train: Train, seconds: float) -> list[object] | None:
        """A step that took so long is over; its row of the steps table, if it has one."""
        self._spend("TU", Ledger(useful=seconds), self._num_training)
        if not self._num_training:  # on the devices of the actors, which had nothing to do
            for number, unit in enumerate(self._units):
                devices = unit.num_actors * unit.devices_per_actor
                self._spend(f"GU{number}", Ledger(useful=seconds, sorting=-seconds), devices)
        if not train.groups:
            return None
        self.record.trained(self.now_s - seconds, train, self.now_s)
        return list(self.record.step_rows[-1])

    def exported(self, seconds: float) -> None:
        """The Training Unit has written a snapshot or a checkpoint."""
        self._spend("TU", Ledger(reload=seconds), self._num_training)

    def settle(self, unit: int, states: Mapping[int, State], lost_s: float = 0.0) -> None:
        """The actors of a unit are gone, or begin anew."""
        devices = self._units[unit].devices_per_actor
        for state in states.values():
            self._spend(f"GU{unit}", state.spent, devices)
            self._spend(f"GU{unit}", Ledger(lost=lost_s), devices)

    def keep(self, states_u: Mapping[int, Mapping[int, State]], pids: Mapping[str, int]) -> None:
        """Give the journal what is new."""
        rows, changes = self.record.rows, self.record.changes
        spent_u = {unit: asdict(spent) for unit, spent in self._spent_u(states_u).items()}
        self._journal.keep(
            self.now_s, rows[self._num_kept :], changes[self._num_changes :], spent_u, pids
        )
        self._num_kept, self._num_changes = len(rows), len(changes)

    def run(self) -> Run:
        """All of it, from the journal."""
        steps = [row for row, _ in self._journal.steps() if row is not None]
        trace = trace_of(self._journal.rows("trace")).sort("time_s", maintain_order=True)
        occupancy = np.array(self._journal.rows("occupancy"), dtype=np.float64)
        num_generating = sum(unit.num_actors * unit.devices_per_actor for unit in self._units)
        return Run(
            seconds=self.now_s,
            steps=pl.DataFrame(steps, schema=STEPS, orient="row"),
            lag_g=self._journal.lags(),
            failed=self._journal.failed(),
            occupancy=Occupancy(*occupancy.T),
            ledger_u={unit: Ledger(**spent) for unit, spent in self._journal.spent_u().items()},
            num_devices=num_generating + self._num_training,
            trace=trace,
        )

    def _spent_u(self, states_u: Mapping[int, Mapping[int, State]]) -> dict[str, Ledger]:
        spent_u = dict(self._past_u)
        training = spent_u.setdefault("TU", Ledger())
        waited = max(0.0, self.now_s * self._num_training - training.total)
        spent_u["TU"] = training + Ledger(sorting=waited)
        for unit, states in states_u.items():
            for state in states.values():
                now = _times(state.spent, self._units[unit].devices_per_actor)
                spent_u[f"GU{unit}"] = spent_u.get(f"GU{unit}", Ledger()) + now
        return spent_u

    def _spend(self, unit: str, spent: Ledger, num_devices: int) -> None:
        self._past_u[unit] = self._past_u.get(unit, Ledger()) + _times(spent, num_devices)

    def _tokens(self, group: int) -> int:
        assert self.stock is not None, "a session has begun"
        return sum(self.stock.tokens_of(group))


def _times(spent: Ledger, factor: float) -> Ledger:
    return Ledger(**{name: factor * value for name, value in spent.as_dict().items()})
