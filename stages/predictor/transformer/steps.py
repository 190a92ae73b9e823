"""Which prompts make a step of tuning, and what is its gradient?

A step is a batch of prompts of like size with all their samples, in as many passes as memory needs.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row, _b prompts of a pass.
"""

from collections.abc import Sequence

import numpy as np
import torch

from stages.predictor.backend import Ints, Observations
from stages.predictor.transformer.encode import Tokens, batches, pad
from stages.predictor.transformer.loss import Target, loss_b
from stages.predictor.transformer.model import LengthModel
from stages.predictor.transformer.team import Team

BATCH_PROMPTS = 32  # of a step
BUCKET_BATCHES = 16  # among which prompts are sorted by size


class Batcher:
    """Cuts the prompts to learn from into steps."""

    def __init__(
        self, prompts: Sequence[Tokens], observations: Observations, learned: Ints, seed: int
    ) -> None:
        self._prompts, self._seen, self._learned, self._seed = prompts, observations, learned, seed
        self._first_p = np.searchsorted(observations.prompt_s, np.arange(len(prompts) + 1))
        self._epoch: tuple[int, list[Ints]] = (-1, [])
        self.steps_per_epoch = -(-len(learned) // BATCH_PROMPTS)

    def epoch(self, number: int) -> list[Ints]:
        """The batches of an epoch: shuffled prompts, of like size within a batch."""
        if self._epoch[0] != number:
            rng = np.random.default_rng([self._seed, number])
            shuffled = rng.permutation(self._learned)
            size = BATCH_PROMPTS * BUCKET_BATCHES
            found: list[Ints] = []
            for start in range(0, len(shuffled), size):
                bucket = shuffled[start : start + size]
                order = np.argsort([len(self._prompts[at]) for at in bucket], kind="stable")
                found += [bucket[order[i : i + BATCH_PROMPTS]]
                          for i in range(0, len(bucket), BATCH_PROMPTS)]  # fmt: skip
            self._epoch = (number, [found[i] for i in rng.permutation(len(found))])
        return self._epoch[1]

    def backward(
        self, model: LengthModel, team: Team, batch: Ints, max_tokens: int, *, learns_sigma: bool
    ) -> None:
        """Gradients of the mean loss of a batch, in as many passes as memory needs.

        Prompts are ranked among those of their pass.
        """
        model.zero_grad()  # of a try that ran out of memory
        own = batch[team.rank :: team.size]
        for part in batches([len(self._prompts[at]) for at in own], max_tokens):
            rows = own[part]
            device = model.head.weight.device
            mu_b, log_sigma_b = model(*pad([self._prompts[at] for at in rows], device))
            if not learns_sigma:  # until mu is roughly right, sigma would only explain it away
                log_sigma_b = log_sigma_b.detach()
            loss = loss_b(mu_b, log_sigma_b, self._target(rows, device))
            torch.autograd.backward(loss.sum() * team.size / len(batch))
        for parameter in (p for p in model.parameters() if p.requires_grad):
            gradient = parameter.grad if parameter.grad is not None else 0 * parameter.detach()
            parameter.grad = team.average(gradient)

    def _target(self, rows: Ints, device: torch.device) -> Target:
        samples = [np.arange(self._first_p[at], self._first_p[at + 1]) for at in rows]
        sample_s = np.concatenate(samples)
        return Target(
            torch.from_numpy(np.repeat(np.arange(len(rows)), [len(s) for s in samples])).to(device),
            torch.from_numpy(self._seen.log_tokens_s[sample_s]).float().to(device),
            torch.from_numpy(self._seen.is_censored_s[sample_s]).to(device),
        )
