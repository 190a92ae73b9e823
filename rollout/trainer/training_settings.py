"""How does the Training Unit learn?"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from stages.tables.errors import AspError

Loss = Literal["grpo", "dr_grpo", "dapo"]
LagCorrection = Literal["truncated", "decoupled", "none"]
ZeroAdvantage = Literal["keep", "skip"]


@dataclass(frozen=True)
class TrainingSettings:
    """One step is one pass over all samples it was given, `updates_per_step` times.

    The loss fixes what belongs together (`losses.py` has the formulas):

    | loss | advantage | a token's share of the loss | upper clip |
    |---|---|---|---|
    | grpo | over the group's standard deviation | 1 / (samples x the response's) | as lower |
    | dr_grpo | the difference alone | 1 / (samples x max_response_tokens) | as lower |
    | dapo | over the group's standard deviation | 1 / tokens of the whole step | 0.28 |
    """

    temperature: float  # of sampling: log-probabilities are taken at it
    loss: Loss = "grpo"
    max_response_tokens: int | None = None  # the cap; dr_grpo divides by it
    clip_low: float = 0.2  # a ratio below 1 - clip_low earns no more
    clip_high: float | None = None  # above 1 + clip_high; None: that of the loss
    kl_coefficient: float = 0.0  # 0: no reference model is held
    lag_correction: LagCorrection = "truncated"
    importance_cap: float = 2.0  # of old policy over behaviour, by token
    zero_advantage: ZeroAdvantage = "keep"  # groups of equal rewards: in the loss, or left out
    learning_rate: float = 1e-6
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    updates_per_step: int = 1
    tokens_per_micro_batch: int = 8192  # of prompts, responses and padding; memory, not result

    def __post_init__(self) -> None:
        for name, kind in (
            ("loss", Loss), ("lag_correction", LagCorrection), ("zero_advantage", ZeroAdvantage),
        ):  # fmt: skip
            if getattr(self, name) not in get_args(kind):
                known = ", ".join(get_args(kind))
                raise AspError(f"{name} is {getattr(self, name)!r}; it is one of {known}")
        for name in (
            "temperature", "max_response_tokens", "clip_high", "importance_cap", "learning_rate",
            "max_grad_norm", "updates_per_step", "tokens_per_micro_batch",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise AspError(f"{name} is {value}: it must be a number above 0")
        for name in ("kl_coefficient", "weight_decay"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise AspError(f"{name} is {value}: it must be a number not below 0")
        if not 0 < self.clip_low < 1:
            raise AspError(f"clip_low is {self.clip_low}: it must lie between 0 and 1")
        if self.loss == "dr_grpo" and self.max_response_tokens is None:
            raise AspError("loss dr_grpo divides by max_response_tokens, which is not given")

    @property
    def upper_clip(self) -> float:
        """Room of the ratio above 1."""
        if self.clip_high is not None:
            return self.clip_high
        return 0.28 if self.loss == "dapo" else self.clip_low

    @property
    def scales_advantages(self) -> bool:
        """Whether a group's advantages are divided by its standard deviation."""
        return self.loss != "dr_grpo"
