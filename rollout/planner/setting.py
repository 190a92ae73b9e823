"""What can be turned before a run: how devices are shared, and how a schedule is made."""

from dataclasses import dataclass
from typing import NamedTuple

from stages.balance.config import Policy


class Split(NamedTuple):
    """Who has the devices."""

    num_actors: int  # that generate
    training_devices: int


@dataclass(frozen=True, order=True)
class Setting:
    """One choice of everything; each field is a lever."""

    split: Split
    batch_size: int  # prompts of a minibatch, the base size
    slack: float
    prompts_per_group: int  # of a training step, exactly
    policy: Policy
    max_rounds: int  # tail rounds; 0: no token budgets
    max_lag: int  # hard bound [training steps]

    @property
    def group_size(self) -> int:
        """Minibatches of a training step."""
        return max(1, round(self.prompts_per_group / self.batch_size))

    def largest_minibatch(self, samples_per_prompt: int) -> int:
        """Responses that its largest minibatch may have."""
        return int(self.batch_size * (1 + self.slack) + 1e-9) * samples_per_prompt
