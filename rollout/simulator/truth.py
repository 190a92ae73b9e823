"""How long are the responses really, in a simulation, and which never end?

Drawn once for each prompt, pass and sample, whatever the order of the prompts: so two schedules
that are compared under one seed generate the same responses.

Arrays end in an axis legend: _p prompts, _ep passes and prompts, _epn passes, prompts, samples.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rollout.control.plan import Plan
from rollout.simulator.troubles import FOR_EVER, TimeOuts
from rollout.simulator.workload import NEVER, Workload
from stages.lengths import table as lengths_table
from stages.tables.errors import AspError

MOST_RESPONSES = 10**8  # of a run; 50 bytes each while they are drawn
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Truth:
    """True lengths [tokens] of all responses."""

    row_of: dict[int, int]  # prompt_id to row
    tokens_epn: Ints
    prompt_tokens_p: Ints  # 0 where unknown
    never_ends_epn: Bools
    is_unrewarded_ep: Bools  # the reward of the sample group never comes

    def workload(self, plan: Plan) -> Workload:
        """In the order of a plan of these prompts."""
        passes = {epoch: number for number, epoch in enumerate(sorted(set(plan.epoch_g)))}
        lengths_g = []
        rows = [self.row_of[prompt] for prompt in plan.prompt_g]
        tokens_epn = np.where(self.never_ends_epn, NEVER, self.tokens_epn)
        for row, epoch, size in zip(rows, plan.epoch_g, plan.samples_g, strict=True):
            lengths_g.append(tuple(tokens_epn[passes[epoch], row, :size].tolist()))
        passes_g = [passes[epoch] for epoch in plan.epoch_g]
        unrewarded = np.flatnonzero(self.is_unrewarded_ep[passes_g, rows])
        return Workload(
            tuple(lengths_g),
            tuple(self.prompt_tokens_p[rows].tolist()),
            frozenset(unrewarded.tolist()),
        )

    def samples(self) -> dict[int, Ints]:
        """All lengths of each prompt, as a recorded profile would have them if all ended."""
        return {prompt: self.tokens_epn[:, row].reshape(-1) for prompt, row in self.row_of.items()}


def draw_truth(
    lengths: pl.DataFrame,
    recorded: Mapping[int, Ints],
    num_epochs: int,
    num_samples: int,
    seed: int,
    timeouts: TimeOuts = FOR_EVER,
) -> Truth:
    """Draw true lengths.

    Args:
        lengths: A complete lengths table.
        recorded: prompt_id to recorded lengths [tokens]; a prompt that has any draws among them
            with replacement, the others from their distribution.
        num_epochs: Passes over the prompts.
        num_samples: Responses of a prompt in a pass.
        seed: Of the draws.
        timeouts: The chances that a response never ends and that a reward never comes.
    """
    rng = np.random.default_rng(seed)
    prompt_ids = lengths["prompt_id"].to_list()
    shape = num_epochs, len(prompt_ids), num_samples
    if math.prod(shape) > MOST_RESPONSES:
        raise AspError(
            f"{math.prod(shape):,} responses, {num_samples:,} of each of {len(prompt_ids):,} "
            f"prompts in {num_epochs:,} passes, are more than the {MOST_RESPONSES:,} that can be "
            "simulated; take fewer prompts, or fewer samples of each"
        )
    tokens_epn = _drawn(lengths, shape, rng)
    share_epn = rng.random(shape)
    found = [recorded.get(prompt, np.empty(0, dtype=np.int64)) for prompt in prompt_ids]
    size_p = np.array([len(tokens) for tokens in found])
    start_p = np.cumsum(size_p) - size_p
    if size_p.any():
        chosen_epn = start_p[:, None] + (share_epn * size_p[:, None]).astype(np.int64)
        known = np.flatnonzero(size_p)
        tokens_epn[:, known] = np.concatenate(found)[chosen_epn[:, known]]
    prompt_tokens_p = lengths["prompt_tokens"].fill_null(0).to_numpy()
    row_of = {prompt: row for row, prompt in enumerate(prompt_ids)}
    never_epn = rng.random(shape) < timeouts.response_chance
    unrewarded_ep = rng.random(shape[:2]) < timeouts.reward_chance
    # An empty response is one that stopped with its first token.
    return Truth(row_of, np.maximum(tokens_epn, 1), prompt_tokens_p, never_epn, unrewarded_ep)


def _drawn(lengths: pl.DataFrame, shape: tuple[int, int, int], rng: np.random.Generator) -> Ints:
    """What samples of a prompt share holds in every pass; chance is new in each."""
    distribution = lengths_table.distribution(lengths)
    num_epochs, num_prompts, _ = shape
    share_p = distribution.chance_share()
    shared_p = np.sqrt(1 - share_p**2) * rng.standard_normal(num_prompts)
    chance_epn = share_p[:, None] * rng.standard_normal(shape)
    z_pq = np.concatenate(list(shared_p[:, None] + chance_epn), axis=1)
    tokens_pq = np.rint(distribution.lengths_at(z_pq)).astype(np.int64)
    return np.stack(np.split(tokens_pq, num_epochs, axis=1))
