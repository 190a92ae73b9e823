"""How is the base model tuned to tell the lengths?

AdamW on batches of prompts of like size, with all their samples; stopped early when the order of
prompts kept aside gets no better. Everything random is drawn from the seed and the number of the
step, so a run that goes on from its checkpoint ends as one that was never stopped.

Arrays end in an axis legend: _p prompts, _k mu or log sigma.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch

from stages.predictor.backend import Bools, Floats, Observations
from stages.predictor.transformer.encode import Tokens, batches, pad
from stages.predictor.transformer.frozen import order_tau
from stages.predictor.transformer.journal import Journal
from stages.predictor.transformer.memory import Memory
from stages.predictor.transformer.model import LengthModel, Weights
from stages.predictor.transformer.steps import Batcher
from stages.predictor.transformer.team import Team
from stages.tables.errors import log
from stages.tables.progress import progress

BODY_RATE, ADAPTER_RATE, HEAD_RATE = 5e-5, 2e-4, 1e-4  # learning rates, at their highest
WARMUP_SHARE = 0.05  # of all steps; then the rate falls linearly to 0
WEIGHT_DECAY = 0.01
MAX_NORM = 1.0  # of the gradient
LOOKS = 2  # at the prompts kept aside, an epoch
PATIENCE = 2  # looks without a better order before it stops
CHECKPOINT_EVERY = 50  # steps
PASS_TOKENS = {"cpu": 8192, "cuda": 32768}  # of the first try


@dataclass
class State:
    """Where a tuning stands."""

    step: int = 0
    best: Weights = field(default_factory=dict)
    best_tau: float = -np.inf
    taus: list[float] = field(default_factory=list)  # of each look, the first before any step

    def look(self, tau: float, model: LengthModel) -> None:
        """Note an order's quality, and the weights if it is the best."""
        self.taus.append(tau)
        if tau > self.best_tau:
            self.best_tau, self.best = tau, model.tuned()

    @property
    def is_over(self) -> bool:
        """Whether the last looks brought nothing."""
        return len(self.taus) - 1 - int(np.argmax(self.taus)) >= PATIENCE


def tune(
    model: LengthModel,
    prompts: Sequence[Tokens],
    observations: Observations,
    is_aside_p: Bools,
    max_epochs: int,
    seed: int,
    journal: Journal,
    team: Team,
) -> float:
    """Tune the model in place, as far as the order of the prompts kept aside gets better.

    Args:
        model: To be tuned.
        prompts: Tokens of each prompt of the observations.
        observations: What to learn.
        is_aside_p: Prompts that are not learned from but decide when to stop.
        max_epochs: Passes over the others, at most.
        seed: Of the order of prompts, and of dropout.
        journal: Holds the checkpoint.
        team: The processes that share the work.

    Returns:
        Kendall's tau of the prompts kept aside.
    """
    batcher = Batcher(prompts, observations, np.flatnonzero(~is_aside_p), seed)
    num_steps = max_epochs * batcher.steps_per_epoch
    looks = {
        round((k + 1) * batcher.steps_per_epoch / LOOKS) for k in range(max_epochs * LOOKS)
    }  # after these steps
    memory = Memory(PASS_TOKENS["cuda" if next(model.parameters()).is_cuda else "cpu"])
    optimizer = _optimizer(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: _rate(at, num_steps))
    state = State()
    kept = journal.load("tuning")
    if kept is not None:
        model.restore(kept["weights"])
        optimizer.load_state_dict(kept["optimizer"])
        schedule.load_state_dict(kept["schedule"])
        state, memory.tokens = State(**kept["state"]), kept["tokens"]

    aside = [ids for ids, is_aside in zip(prompts, is_aside_p, strict=True) if is_aside]

    def look() -> None:
        mu_p, _ = read(model, aside, memory, team)
        state.look(order_tau(mu_p, observations.subset(is_aside_p)), model)

    if not state.taus:
        look()
    with progress("steps of tuning", num_steps, state.step) as done:
        while state.step < num_steps and not state.is_over:
            torch.manual_seed(seed * 1_000_003 + state.step)  # of dropout
            epoch, at = divmod(state.step, batcher.steps_per_epoch)
            batch = batcher.epoch(epoch)[at]
            model.train()
            optimizer.zero_grad()
            memory.attempt(partial(batcher.backward, model, team, batch, learns_sigma=epoch > 0))
            torch.nn.utils.clip_grad_norm_(_parameters(optimizer), MAX_NORM)
            optimizer.step()
            schedule.step()
            state.step += 1
            if state.step in looks:
                look()
            if team.rank == 0 and (state.step % CHECKPOINT_EVERY == 0 or state.step in looks):
                journal.keep(
                    "tuning",
                    {
                        "weights": model.tuned(),
                        "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(),
                        "state": vars(state),
                        "tokens": memory.tokens,
                    },
                )
            done(1)
    log.info(
        "tuning: tau on %d prompts kept aside %s",
        is_aside_p.sum(), ", ".join(f"{tau:.3f}" for tau in state.taus),
    )  # fmt: skip
    model.restore(state.best)
    return state.best_tau


@torch.inference_mode()
def read(
    model: LengthModel, prompts: Sequence[Tokens], memory: Memory, team: Team
) -> tuple[Floats, Floats]:
    """mu and sigma of each prompt."""
    model.eval()
    told_pk = torch.zeros((len(prompts), 2), device=next(model.parameters()).device)

    def work(tokens: int) -> None:
        own = range(team.rank, len(prompts), team.size)
        for batch in batches([len(prompts[at]) for at in own], tokens):
            rows = [own[at] for at in batch]
            ids_bt, mask_bt = pad([prompts[at] for at in rows], told_pk.device)
            told_pk[rows] = torch.stack(model(ids_bt, mask_bt), dim=1)

    memory.attempt(work)
    mu_p, log_sigma_p = (team.average(told_pk) * team.size).double().cpu().numpy().T
    return np.ascontiguousarray(mu_p), np.exp(log_sigma_p)


def _optimizer(model: LengthModel) -> torch.optim.Optimizer:
    body_rate = ADAPTER_RATE if model.has_adapters else BODY_RATE
    return torch.optim.AdamW(
        [
            {"params": model.body_parameters(), "lr": body_rate},
            {"params": list(model.head.parameters()), "lr": HEAD_RATE},
        ],
        weight_decay=WEIGHT_DECAY,
    )


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _rate(step: int, num_steps: int) -> float:
    """The share of the highest learning rate, rising then falling."""
    warmup = max(1, round(WARMUP_SHARE * num_steps))
    return min((step + 1) / warmup, (num_steps - step) / max(1, num_steps - warmup))
