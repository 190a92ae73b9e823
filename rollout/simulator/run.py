"""What did a run come to, simulated or real?

Arrays end in an axis legend: _s training steps with samples, _e changes of occupancy.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rollout.simulator.ledger import Ledger

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Occupancy:
    """Samples over time, constant between changes."""

    time_e: Floats  # [s]
    queued_e: Floats  # in the Training Queue
    position_e: Floats  # in flight or queued

    def over(self, values_e: Floats, start_s: float, end_s: float) -> tuple[float, float]:
        """Mean over time, and standard deviation, between two times."""
        edges = np.clip(np.append(self.time_e, max(end_s, self.time_e[-1])), start_s, end_s)
        weight_e = np.diff(edges)
        if not weight_e.sum():
            return float(values_e[-1]), 0.0
        mean = float(np.average(values_e, weights=weight_e))
        return mean, float(np.sqrt(np.average((values_e - mean) ** 2, weights=weight_e)))


@dataclass(frozen=True)
class Run:
    """Times, lags, occupancy and ledger of a run, from time 0 to its last training step."""

    seconds: float
    steps: pl.DataFrame  # step, group_id, start_s, end_s, groups, samples, tokens, lags: a row each
    lag_g: dict[int, int]  # by sample group, in the order in which they were trained on
    failed: frozenset[int]  # sample groups in which something never came
    occupancy: Occupancy
    ledger_u: dict[str, Ledger]  # by unit
    num_devices: int
    trace: pl.DataFrame  # the trace table
    timed_out_responses: int = 0  # where they are told apart, as in the simulator
    timed_out_rewards: int = 0

    @property
    def ledger(self) -> Ledger:
        """Of all units."""
        return sum(self.ledger_u.values(), Ledger())

    @property
    def max_lag(self) -> int:
        """Largest lag of a sample group."""
        return max(self.lag_g.values(), default=0)

    def iteration_seconds(self, num_skipped: int = 0) -> float:
        """Mean time from the end of a step to the end of the next, after the first few."""
        ends = self.steps["end_s"].to_numpy()
        start = float(ends[num_skipped - 1]) if num_skipped else 0.0
        return (float(ends[-1]) - start) / (len(ends) - num_skipped)

    def mean_lag(self, num_skipped: int = 0) -> float:
        """Over samples, after the first few steps."""
        kept = self.steps[num_skipped:]
        return float(np.average(kept["mean_lag"].to_numpy(), weights=kept["samples"].to_numpy()))

    def queue(self, num_skipped: int = 0) -> tuple[float, float]:
        """Mean over time and standard deviation of the Training Queue [samples].

        From the start of the first step that is not skipped to the start of the last.
        """
        return self._between(self.occupancy.queued_e, num_skipped)

    def position(self, num_skipped: int = 0) -> tuple[float, float]:
        """The same of the samples in flight or queued."""
        return self._between(self.occupancy.position_e, num_skipped)

    def tokens_per_device_second(self) -> float:
        """Response tokens trained on, over all devices."""
        return float(self.steps["tokens"].sum()) / (self.seconds * self.num_devices)

    def _between(self, values_e: Floats, num_skipped: int) -> tuple[float, float]:
        starts = self.steps["start_s"].to_numpy()
        return self.occupancy.over(values_e, float(starts[num_skipped]), float(starts[-1]))
