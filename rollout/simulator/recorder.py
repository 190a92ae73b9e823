"""What is written down while a plan runs, in virtual time or in real?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from rollout.control.messages import Train, Work
from rollout.control.plan import Plan
from rollout.simulator.run import Occupancy
from stages.tables.schemas import Trace

STEPS = {
    "step": pl.Int64, "group_id": pl.Int64, "start_s": pl.Float64, "end_s": pl.Float64,
    "groups": pl.Int64, "samples": pl.Int64, "tokens": pl.Int64, "mean_lag": pl.Float64,
    "max_lag": pl.Int64,
}  # fmt: skip


class Recorder:
    """Rows of the trace, training steps, and occupancy."""

    def __init__(self, plan: Plan, tokens: Callable[[int], int]) -> None:
        """Begin with nothing.

        Args:
            plan: Whose sample groups are numbered.
            tokens: Of all responses of a sample group that is trained on.
        """
        self._plan = plan
        self._tokens = tokens
        self.rows: list[tuple[Any, ...]] = []
        self.step_rows: list[tuple[Any, ...]] = []
        self.changes: list[tuple[float, int, int]] = [(0.0, 0, 0)]  # of occupancy
        self.lag_g: dict[int, int] = {}
        self.failed: set[int] = set()
        self.timed_out_responses = self.timed_out_rewards = 0
        self.queue_size = 0

    def occupancy(self, now_s: float, queued: int, position: int) -> None:
        """Samples in the queue, and in flight or queued."""
        if self.changes[-1][1:] != (queued, position):
            self.changes.append((now_s, queued, position))
            self.queue_size = queued

    def event(
        self,
        now_s: float,
        event: str,
        unit: str,
        actor: int | None = None,
        work: Work | None = None,
        num_active: int | None = None,
        version: int | None = None,
    ) -> None:
        """Something happened to an actor."""
        epoch = minibatch_id = group_id = None
        if work is not None:
            epoch, minibatch_id = work.epoch, work.minibatch_id
            group_id = self._plan.group_id_s[work.step]
        self.rows.append(
            (now_s, event, unit, actor, epoch, minibatch_id, group_id, num_active,
             self.queue_size, version, None)
        )  # fmt: skip

    def taken(self, now_s: float, train: Train) -> None:
        """A training step takes its sample groups."""
        group_id = self._plan.group_id_s[train.step]
        largest = max(train.lags, default=None)
        self.rows.append(
            (now_s, "train", "TU", None, None, None, group_id, None, self.queue_size, train.step,
             largest)
        )  # fmt: skip

    def trained(self, start_s: float, train: Train, end_s: float) -> None:
        """A training step with samples is over."""
        group_id = self._plan.group_id_s[train.step]
        largest = max(train.lags)
        samples = [self._plan.samples_g[group] for group in train.groups]
        self.lag_g.update(zip(train.groups, train.lags, strict=True))
        self.failed |= train.failed
        self.step_rows.append(
            (train.step, group_id, start_s, end_s, len(train.groups), sum(samples),
             sum(self._tokens(group) for group in train.groups),
             float(np.average(train.lags, weights=samples)), largest)
        )  # fmt: skip

    def steps(self) -> pl.DataFrame:
        """A row a training step with samples."""
        return pl.DataFrame(self.step_rows, schema=STEPS, orient="row")

    def samples(self) -> Occupancy:
        """Occupancy over time."""
        return Occupancy(*np.array(self.changes, dtype=np.float64).T)

    def trace(self) -> pl.DataFrame:
        """The trace table."""
        return trace_of(self.rows)


def trace_of(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """Rows as the trace table."""
    schema = {name: column.dtype for name, column in Trace.columns().items()}
    return pl.DataFrame(rows, schema=schema, orient="row")
