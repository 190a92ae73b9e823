"""What does a token add to the loss?

    -w min(r A, clip(r, 1 - low, 1 + high) A) + beta k3

- r = pi / pi_old, the clip that of PPO (Schulman et al. 2017, arXiv 1707.06347, equation 7), as
  in GRPO (arXiv 2402.03300, equation 3); DAPO (arXiv 2503.14476, section 3.1) lets the upper clip
  be higher, so that unlikely tokens can gain. pi_old is the policy at the start of the step.
- w corrects the lag: the token was drawn by mu, the weights of some steps ago, and log mu was
  recorded with it. rho = pi_old / mu; no gradient flows through w.
    truncated: w = min(rho, cap), as in V-trace (Espeholt et al. 2018, arXiv 1802.01561);
    decoupled: w = rho, the proximal policy being pi_old (Hilton et al. 2021, arXiv 2110.00641),
      and a token with rho above the cap is left out, as AReaL does (arXiv 2505.24298);
    none: w = 1, as if there were no lag.
  A continued response has several mu; by token, each weight is that of its own.
- k3 = exp(d) - d - 1 with d = log pi_ref - log pi, an estimate of KL(pi, pi_ref) that is never
  negative (http://joschu.net/blog/kl-approx.html; GRPO's equation 4).

Normalisation is not done here: `advantages.weigh` has it.

Arrays end in an axis legend: _t response tokens, of all samples of a micro-batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollout.trainer.training_settings import TrainingSettings

_MAX_LOG_RATIO = 20.0  # exp stays finite; what lies beyond is capped or left out


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """The loss of each token, and what it was made of; only the first has a gradient."""

    loss_t: Tensor
    ratio_t: Tensor  # rho: old policy over behaviour, before any cap
    is_clipped_t: Tensor  # the clip of r stops its gradient
    is_capped_t: Tensor  # rho is above the cap
    kl_t: Tensor  # k3; zeros without a reference


def token_losses(
    logprob_t: Tensor,
    old_t: Tensor,
    behaviour_t: Tensor,
    reference_t: Tensor | None,
    advantage_t: Tensor,
    settings: TrainingSettings,
) -> TokenLosses:
    """Log-probabilities of each token under pi, pi_old, mu and pi_ref; all at one temperature."""
    ratio_t = _ratio(old_t.detach() - behaviour_t)
    is_capped_t = ratio_t > settings.importance_cap
    if settings.lag_correction == "truncated":
        weight_t = ratio_t.clamp(max=settings.importance_cap)
    elif settings.lag_correction == "decoupled":
        weight_t = ratio_t.masked_fill(is_capped_t, 0.0)
    else:
        weight_t = torch.ones_like(ratio_t)
    change_t = _ratio(logprob_t - old_t.detach())
    clipped_t = change_t.clamp(1 - settings.clip_low, 1 + settings.upper_clip)
    free_gain_t, clipped_gain_t = change_t * advantage_t, clipped_t * advantage_t
    loss_t = -weight_t * torch.minimum(free_gain_t, clipped_gain_t)
    kl_t = torch.zeros_like(logprob_t)
    if reference_t is not None:
        difference_t = reference_t - logprob_t
        kl_t = difference_t.exp() - difference_t - 1
        loss_t = loss_t + settings.kl_coefficient * kl_t
    return TokenLosses(
        loss_t, ratio_t, (clipped_gain_t < free_gain_t).detach(), is_capped_t, kl_t.detach()
    )


def _ratio(log_ratio_t: Tensor) -> Tensor:
    return log_ratio_t.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
