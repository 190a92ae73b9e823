"""How wrong is a predicted distribution, and how wrong the order it puts prompts in?

The likelihood is of a normal in log tokens, cut responses being at least as long as they are
(Tobit). The ranking term is the logistic loss on pairs (RankNet, Burges et al. 2005): a schedule
is an order, and a shared scale error does it no harm.

Axis legend: _b prompts of a batch, _s their samples in a row.
"""

import math
from typing import NamedTuple

import torch
from torch.nn.functional import softplus

RANKING_WEIGHT = 0.3  # of the ranking term beside the likelihood
LEAST_GAP = math.log(1.2)  # log tokens; closer lengths are chance, and not ranked


class Target(NamedTuple):
    """What was observed of a batch."""

    prompt_s: torch.Tensor  # index of the sample's prompt in the batch
    log_tokens_s: torch.Tensor
    is_cut_s: torch.Tensor

    def average(self, value_s: torch.Tensor, num_prompts: int) -> torch.Tensor:
        """The mean over the samples of each prompt."""
        total_b = value_s.new_zeros(num_prompts).index_add(0, self.prompt_s, value_s)
        samples_b = value_s.new_zeros(num_prompts).index_add(
            0, self.prompt_s, torch.ones_like(value_s)
        )
        return total_b / samples_b


def loss_b(mu_b: torch.Tensor, log_sigma_b: torch.Tensor, target: Target) -> torch.Tensor:
    """The loss of each prompt: it counts once, however often it was asked."""
    likelihood_b = target.average(negative_log_likelihood(mu_b, log_sigma_b, target), len(mu_b))
    return likelihood_b + RANKING_WEIGHT * ranking_b(mu_b, target)


def negative_log_likelihood(
    mu_b: torch.Tensor, log_sigma_b: torch.Tensor, target: Target
) -> torch.Tensor:
    """Of each sample; without the constant of the normal density."""
    log_sigma_s = log_sigma_b[target.prompt_s]
    z_s = (target.log_tokens_s - mu_b[target.prompt_s]) * torch.exp(-log_sigma_s)
    return torch.where(target.is_cut_s, -torch.special.log_ndtr(-z_s), z_s**2 / 2 + log_sigma_s)


def ranking_b(mu_b: torch.Tensor, target: Target) -> torch.Tensor:
    """Logistic loss of each prompt against those of the batch known to be shorter.

    A prompt with a cut response is at least as long as observed: it can be the longer of a pair,
    never the shorter. 0 where no pair is known.
    """
    observed_b = target.average(target.log_tokens_s, len(mu_b))
    is_cut_b = target.average(target.is_cut_s.float(), len(mu_b)) > 0
    is_known_bb = (observed_b[:, None] - observed_b[None] > LEAST_GAP) & ~is_cut_b[None]
    loss_bb = softplus(mu_b[None] - mu_b[:, None]) * is_known_bb
    return loss_bb.sum(1) / is_known_bb.sum(1).clamp(min=1)
