"""How likely is each token of a response under a model?

Sequences stand in rows, prompt then response, padded on the right, where a causal model does not
see it. Only response tokens are kept, one after the other.

Arrays end in an axis legend: b rows, w their width in tokens, t response tokens of all rows, v
the vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rollout.trainer.samples import Sample


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples laid out for one forward pass."""

    ids_bw: Tensor
    mask_bw: Tensor  # 1: a token; 0: padding
    row_t: Tensor
    place_t: Tensor  # column of each response token

    def spread(self, value_b: Sequence[float]) -> Tensor:
        """A value of each row, given to each of its response tokens."""
        return torch.tensor(value_b, dtype=torch.float32, device=self.row_t.device)[self.row_t]


def lay_out(samples: Sequence[Sample], device: torch.device) -> Rows:
    """Pad samples to the longest."""
    widths = [len(sample.prompt_ids) + len(sample.token_ids) for sample in samples]
    ids_bw = np.zeros((len(samples), max(widths)), dtype=np.int64)
    mask_bw = np.zeros_like(ids_bw)
    is_response_bw = np.zeros(ids_bw.shape, dtype=bool)
    for row, (sample, width) in enumerate(zip(samples, widths, strict=True)):
        ids_bw[row, :width] = np.concatenate((sample.prompt_ids, sample.token_ids))
        mask_bw[row, :width] = 1
        is_response_bw[row, len(sample.prompt_ids) : width] = True
    row_t, place_t = is_response_bw.nonzero()
    arrays = (ids_bw, mask_bw, row_t, place_t)
    return Rows(*(torch.from_numpy(array).to(device) for array in arrays))


def score(model: Any, rows: Rows, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of each response token, and entropy in nats of where it was drawn from.

    Both float32, (t,); the entropy has no gradient. On a GPU the model runs in bfloat16.
    """
    device = rows.ids_bw.device.type
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        logits_bwv = model(
            input_ids=rows.ids_bw, attention_mask=rows.mask_bw, use_cache=False
        ).logits
    logits_tv = logits_bwv[rows.row_t, rows.place_t - 1].float() / temperature
    total_t = logits_tv.logsumexp(-1)  # log_softmax would be one more (t, v) kept for the gradient
    token_t = rows.ids_bw[rows.row_t, rows.place_t]
    logprob_t = logits_tv.gather(-1, token_t[:, None])[:, 0] - total_t
    with torch.no_grad():
        entropy_t = total_t - (logits_tv.softmax(-1) * logits_tv).sum(-1)
    return logprob_t, entropy_t


def cut_by_tokens(num_tokens: Sequence[int], tokens_per_micro_batch: int) -> list[list[int]]:
    """Cut sequences into micro-batches that hold, padding counted, at most so many tokens.

    Longest first, like beside like: little padding, and what does not fit in memory fails at
    once. A sequence longer than that is alone. Returns the places of each one's sequences.
    """
    batches: list[list[int]] = []
    for place in sorted(range(len(num_tokens)), key=lambda place: -num_tokens[place]):
        width = num_tokens[batches[-1][0]] if batches else 0
        if batches and width * (len(batches[-1]) + 1) <= tokens_per_micro_batch:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches
