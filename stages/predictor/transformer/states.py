"""What does the frozen base model make of each prompt?

The pooled states of four layers: how long an answer will be is readable there before any of it is
written (arXiv 2502.06258), better half-way than where the next token is decided. States are
computed once, whatever is fitted on them.

Arrays end in an axis legend: _p prompts, _d features.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from stages.predictor.transformer.base import Base
from stages.predictor.transformer.encode import Tokens, batches, pad, pool
from stages.predictor.transformer.journal import Journal
from stages.predictor.transformer.memory import Memory
from stages.predictor.transformer.team import Team
from stages.tables.progress import progress

CHUNK = 256  # prompts whose states are kept together
PASS_TOKENS = {"cpu": 4096, "cuda": 65536}  # of the first try

Floats32 = NDArray[np.float32]


def pooled_states(base: Base, prompts: Sequence[Tokens], journal: Journal, team: Team) -> Floats32:
    """The states of the prompts, layer after layer, the final one last: prompts x features."""
    memory = Memory(PASS_TOKENS[base.device.type])
    starts = range(0, len(prompts), CHUNK)
    missing = [start for start in starts if journal.load(f"states-{start}") is None]
    made: dict[int, Floats32] = {}
    with progress("states of prompts", len(prompts), CHUNK * (len(starts) - len(missing))) as done:
        for start in missing[team.rank :: team.size]:
            chunk = prompts[start : start + CHUNK]
            made[start] = memory.attempt(partial(_states, base, chunk))
            journal.keep(f"states-{start}", {"states": torch.from_numpy(made[start])})
            done(len(chunk))
    team.wait()
    return np.concatenate([made[s] if s in made else _kept(journal, s) for s in starts])


def layers_of(base: Base) -> list[int]:
    """The layers at a quarter, a half, three quarters and the end of the base model."""
    return sorted({-(-base.num_layers * quarter // 4) for quarter in range(1, 5)})


def _kept(journal: Journal, start: int) -> Floats32:
    kept = journal.load(f"states-{start}")
    assert kept is not None
    return np.asarray(kept["states"].numpy(), dtype=np.float32)


@torch.inference_mode()
def _states(base: Base, prompts: Sequence[Tokens], max_tokens: int) -> Floats32:
    layers = layers_of(base)
    state_pd = np.empty((len(prompts), len(layers) * base.width), dtype=np.float32)
    for batch in batches([len(ids) for ids in prompts], max_tokens):
        ids_bt, mask_bt = pad([prompts[at] for at in batch], base.device)
        read = base.model(input_ids=ids_bt, attention_mask=mask_bt, output_hidden_states=True)
        pooled = [pool(read.hidden_states[layer], mask_bt, base.is_causal) for layer in layers]
        state_pd[batch] = torch.cat(pooled, dim=1).cpu().numpy()
    return state_pd
