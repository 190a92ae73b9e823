"""What balance is asked to do, and the problem that this makes of a minibatches table."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl

from stages.balance.problem import Problem
from stages.tables.errors import AspError

LARGEST_LOAD = 1e200  # seconds or tokens; sums and products with prompts stay finite
SMALLEST_LOAD = 1e-200  # what is below counts as none
Load = Literal["seconds", "tokens"]
Policy = Literal["balanced", "like", "isolate"]
Baseline = Literal["sorted", "shuffled", "snake"]


@dataclass(frozen=True)
class BalanceConfig:
    """How to deal minibatches into groups: so many minibatches a group, or so many prompts."""

    group_size: int = 8  # minibatches a group; of no effect with prompts_per_group
    prompts_per_group: int | None = None  # exactly so many prompts a group: one train batch
    load: Load | None = None  # None: as `for_table` says
    policy: Policy = "balanced"
    method: Baseline | None = None  # a naive way in place of the policy
    instance_speeds: tuple[float, ...] = ()  # of each instance; none: minibatches go to any
    epochs: int = 1  # passes over the prompts, each in its own order
    seed: int = 0  # of method shuffled, of the epochs after the first, of what chance would give
    stratify: str | None = None  # column of lists whose values each group is to hold evenly

    def for_table(self, minibatches: pl.DataFrame) -> "BalanceConfig":
        """With the load that suits the table, where none was chosen.

        Heads that all stop at one token budget take alike, so their seconds say nothing of which
        prompts they hold: there it is tokens that make groups representative.
        """
        if self.load is not None:
            return self
        has_budgets = "token_budget" in minibatches.columns and minibatches["token_budget"].count()
        return replace(self, load="tokens" if has_budgets else "seconds")

    def problem(self, minibatches: pl.DataFrame) -> Problem:
        """Loads, weights and capacities; the remainder of exact train batches is not judged."""
        for column in ("predicted_tokens", "predicted_longest", "predicted_seconds"):
            largest = float(minibatches[column].max())  # type: ignore[arg-type]
            if largest > LARGEST_LOAD:
                raise AspError(
                    f"the minibatches table: column {column!r} holds {largest:g}, which is above "
                    f"{LARGEST_LOAD:g} and cannot be added up; correct it"
                )
        load_b = minibatches[f"predicted_{self.load}"].to_numpy().astype(np.float64)
        load_b = np.where(load_b < SMALLEST_LOAD, 0.0, load_b)
        if self.prompts_per_group is None:
            weight_b, capacity = np.ones(len(load_b), dtype=np.int64), self.group_size
        else:
            weight_b, capacity = minibatches["num_prompts"].to_numpy(), self.prompts_per_group
        full, rest = divmod(int(weight_b.sum()), capacity)
        capacity_g = np.array([capacity] * full + [rest] * (rest > 0))
        return Problem(load_b, weight_b, capacity_g, self.prompts_per_group is None)
