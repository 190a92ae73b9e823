"""What does the tiny model earn, and how do its response lengths vary?

Array legends: p prompts, s samples of one prompt; b all samples, w their width in tokens.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from scipy.stats import kendalltau

from rollout.trainer.rewards.reasoning_gym import reasoning_gym
from rollout.trainer.tiny_model.puzzles import Puzzle


@dataclass(frozen=True, eq=False)
class Measured:
    """Sampled responses of a model at temperature 1."""

    rewards_ps: NDArray[np.float64]
    tokens_ps: NDArray[np.int64]  # length of each response, end token included
    difficulty_p: NDArray[np.int64]

    @property
    def tau(self) -> float:
        """Kendall's tau-b between the difficulty of a prompt and its mean length."""
        return float(kendalltau(self.difficulty_p, self.tokens_ps.mean(axis=1)).statistic)

    def __str__(self) -> str:
        """A line for people."""
        tokens_ps = self.tokens_ps
        return (
            f"reward {self.rewards_ps.mean():.2f}; {tokens_ps.mean():.1f} tokens a response, "
            f"standard deviation {tokens_ps.mean(axis=1).std():.1f} between prompts and "
            f"{tokens_ps.std(axis=1, ddof=1).mean():.1f} within one; Kendall's tau of difficulty "
            f"and mean length {self.tau:.2f}"
        )


@torch.inference_mode()
def measure(
    model: Any, tokenizer: Any, puzzle: Puzzle, prompts: pl.DataFrame, num_samples: int, seed: int
) -> Measured:
    """Sample each prompt so often, all at once; `prompts` is what `make_prompts` made."""
    torch.manual_seed(seed)
    rows = prompts.to_dicts()
    batch = tokenizer([row["prompt"] for row in rows], padding=True, return_tensors="pt")
    width = batch.input_ids.shape[1]
    output_bw = model.generate(
        **batch,
        max_new_tokens=puzzle.max_response_tokens,
        num_return_sequences=num_samples,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
    )[:, width:]
    is_end_bw = output_bw == tokenizer.eos_token_id
    tokens_b = (is_end_bw.cumsum(-1) - is_end_bw.long() == 0).sum(-1)  # up to the first end token
    texts = tokenizer.batch_decode(output_bw, skip_special_tokens=True)
    groups = [texts[at : at + num_samples] for at in range(0, len(texts), num_samples)]
    return Measured(
        rewards_ps=np.array([reasoning_gym(*pair) for pair in zip(groups, rows, strict=True)]),
        tokens_ps=tokens_b.reshape(len(rows), num_samples).numpy(),
        difficulty_p=np.array([puzzle.difficulty(json.loads(row["entry"])) for row in rows]),
    )
