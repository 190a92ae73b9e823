"""The base model with two heads on its pooled state: where the log length lies, how far it spreads.

A small base is tuned whole; a large one through low-rank adapters (LoRA, Hu et al. 2021) on all its
linear layers.

Axis legend: _b prompts of a batch, _t tokens, _d numbers of a state.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from stages.predictor.backend import Observations
from stages.predictor.ridge import fit_censored_ridge
from stages.predictor.transformer.base import Base
from stages.predictor.transformer.encode import pool
from stages.predictor.transformer.states import Floats32
from stages.tables.errors import AspError

WHOLE_BELOW = 200_000_000  # parameters; a smaller base is tuned whole
LORA_RANK = 16
SCALE_MIN = 1e-6  # of a number of the states that hardly varies
LOG_SIGMA_MIN, LOG_SIGMA_MAX = -4.0, 1.5  # log tokens

Weights = dict[str, torch.Tensor]


class LengthModel(nn.Module):
    """A base model that predicts mu and log sigma of the log length.

    Takes the base over: its weights are tuned in place, or adapters are put into its layers.
    """

    def __init__(self, base: Base, *, has_adapters: bool) -> None:
        super().__init__()
        self.has_adapters = has_adapters
        self.body: Any = _with_adapters(base.model) if has_adapters else base.model.float()
        self.head = nn.Linear(base.width, 2).to(base.device)
        self.is_causal = base.is_causal
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.mean_d: torch.Tensor
        self.scale_d: torch.Tensor
        self.register_buffer("mean_d", torch.zeros(base.width, device=base.device))
        self.register_buffer("scale_d", torch.ones(base.width, device=base.device))

    def start_from(self, state_pd: Floats32, observations: Observations, penalty: float) -> None:
        """Let the head say what a ridge on the frozen final states says (LP-FT).

        Kumar et al. 2022: a head that starts at random distorts the states it is tuned with.
        States are brought to deviation 1, so that a learning rate means the same for any base.
        """
        mean_d, scale_d = state_pd.mean(axis=0), np.maximum(state_pd.std(axis=0), SCALE_MIN)
        fit = fit_censored_ridge((state_pd - mean_d) / scale_d, observations, penalty)
        with torch.no_grad():
            self.mean_d.copy_(torch.from_numpy(mean_d))
            self.scale_d.copy_(torch.from_numpy(scale_d))
            self.head.weight[0] = torch.from_numpy(fit.ridge.weight_d)
            self.head.bias[0] = fit.ridge.intercept
            self.head.bias[1] = float(np.log(fit.sigma))

    def forward(
        self, ids_bt: torch.Tensor, mask_bt: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """mu_b and log_sigma_b, float32."""
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=ids_bt.is_cuda):
            state_btd = self.body(input_ids=ids_bt, attention_mask=mask_bt).last_hidden_state
        state_bd = (pool(state_btd, mask_bt, self.is_causal) - self.mean_d) / self.scale_d
        mu_b, log_sigma_b = self.head(state_bd).unbind(1)
        return mu_b, log_sigma_b.clamp(LOG_SIGMA_MIN, LOG_SIGMA_MAX)

    def body_parameters(self) -> list[nn.Parameter]:
        """Those of the base that are tuned."""
        return [p for p in self.body.parameters() if p.requires_grad]

    def tuned(self) -> Weights:
        """A copy of everything in which it differs from the base, by name."""
        return {name: value.detach().cpu().clone() for name, value in self._own()}

    def restore(self, weights: Weights) -> None:
        """Take over what `tuned` gave.

        Raises:
            KeyError, RuntimeError: It is of another model.
        """
        with torch.no_grad():
            for name, value in self._own():
                value.copy_(weights[name])

    def _own(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from (item for item in self.named_parameters() if item[1].requires_grad)
        yield from (("mean_d", self.mean_d), ("scale_d", self.scale_d))


def needs_adapters(base: Base) -> bool:
    """Whether the base is too large to be tuned whole."""
    return bool(sum(p.numel() for p in base.model.parameters()) >= WHOLE_BELOW)


def _with_adapters(body: Any) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise AspError(
            "tuning a base model of this size needs peft: `pip install 'asp-schedule[transformer]'`"
            ", or give --max-epochs 0 to use its frozen states"
        ) from None
    config = LoraConfig(r=LORA_RANK, lora_alpha=2 * LORA_RANK, target_modules="all-linear")
    return get_peft_model(body, config)
