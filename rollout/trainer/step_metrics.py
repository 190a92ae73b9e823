"""What did a training step do, in numbers?

Arrays end in an axis legend: _t response tokens of a micro-batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollout.trainer.devices import Devices
from rollout.trainer.losses import TokenLosses


@dataclass(frozen=True)
class StepMetrics:
    """What a step did. Means are over tokens, and over the step's updates."""

    version: int  # of the weights that it made
    num_groups: int  # consumed
    num_masked: int  # of these, not trained on: a response or reward never came
    num_even: int  # of these, with equal rewards: no advantage
    num_tokens: int  # of responses, in the loss
    reward_mean: float  # of the samples of groups not masked
    loss: float
    kl: float  # k3 to the reference model; 0 where none is held
    entropy: float  # nats
    ratio_mean: float  # old policy over behaviour, before the cap
    ratio_max: float
    capped_share: float  # of tokens whose ratio is above the cap
    clipped_share: float  # of tokens whose gradient the clip stops
    grad_norm: float  # before it is clipped
    seconds: float


class Tally:
    """Sums over the micro-batches of a step."""

    def __init__(self) -> None:
        self._sums = torch.zeros(7, dtype=torch.float64)
        self._ratio_max = torch.zeros(1, dtype=torch.float64)

    def add(self, loss: float, entropy_t: Tensor, losses: TokenLosses) -> None:
        """A micro-batch."""
        of_tokens = (
            torch.ones_like(entropy_t), losses.kl_t, entropy_t, losses.ratio_t,
            losses.is_capped_t, losses.is_clipped_t,
        )  # fmt: skip
        sums = [float(values_t.sum(dtype=torch.float64)) for values_t in of_tokens]
        self._sums += torch.tensor([loss, *sums], dtype=torch.float64)
        self._ratio_max = self._ratio_max.maximum(losses.ratio_t.max().double().cpu())

    def means(self, devices: Devices, num_updates: int) -> dict[str, float]:
        """Over all processes."""
        loss, num_tokens, *sums = devices.total(self._sums).tolist()
        names = ("kl", "entropy", "ratio_mean", "capped_share", "clipped_share")
        means = dict(zip(names, (total / max(num_tokens, 1.0) for total in sums), strict=True))
        ratio_max = float(devices.largest(self._ratio_max))
        return {"loss": loss / num_updates, "ratio_max": ratio_max, **means}
