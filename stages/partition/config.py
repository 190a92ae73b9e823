"""The settings of a partition."""

from dataclasses import dataclass, field
from typing import Literal

from stages.costs.model import CostModel
from stages.partition.budgets import BudgetConfig

Objective = Literal["expected-padding", "utilization", "padding", "seconds"]
Key = Literal["upper", "longest", "expected"]
Method = Literal["exact", "fixed", "random"]


@dataclass(frozen=True)
class PartitionConfig:
    """How to cut. With sizes s = batch_size x (1 +- slack), l the sort key, E expected tokens:

    - expected-padding: the sum over minibatches of s x the expected longest of all its samples,
      minimised, count fixed;
    - utilization: the mean over minibatches of sum(E) / (s x max l), maximised, count fixed;
    - padding: the sum over minibatches of s x max l, minimised, count fixed;
    - seconds: the sum over minibatches of the expected seconds by the cost model, minimised, any
      count.
    """

    batch_size: int = 32  # prompts
    slack: float = 0.25  # 0 to 1
    samples_per_prompt: int | None = None  # the n of training; None: as the lengths table says
    objective: Objective = "expected-padding"
    by: Key | None = None  # sort key; None: upper where spread is priced, expected for the others
    method: Method = "exact"
    seed: int = 0  # of method random
    kv_tokens: int | None = None  # of prompts and responses that fit into memory; None: all do
    cost_model: CostModel = field(default_factory=CostModel)  # predicts seconds for any objective
    budgets: BudgetConfig = field(default_factory=BudgetConfig)

    @property
    def sort_by(self) -> Key:
        """The sort key: spread counts where the expected longest is what is priced."""
        return self.by or ("expected" if self.objective in ("utilization", "padding") else "upper")
