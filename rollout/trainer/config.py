"""How is a run to go?"""

from dataclasses import dataclass
from typing import Literal

from rollout.control.settings import Carry, Pacing, Refresh
from rollout.simulator.modes import Mode
from stages.profile.engine import LocalEngine
from stages.tables.prompts import DEFAULT_PROMPT_COLUMN

Batching = Literal["static", "continuous"]


@dataclass(frozen=True)
class RunConfig:
    """What decides no result: time-outs, checkpoints, and where the processes run."""

    checkpoint_every: int = 10  # training steps
    response_timeout_s: float = 3600.0  # of a minibatch, from its dispatch
    grace_s: float = 10.0  # beyond it, before a unit that does not give up is killed
    load_timeout_s: float = 3600.0  # of weights, by a unit whose process is up
    reward_timeout_s: float = 60.0  # of a sample group
    num_judges: int = 1  # processes that score
    unit_cpus: float = 0.0  # that Ray reserves for a Generation Unit
    unit_gpus: float = 0.0
    trainer_gpus: float = 0.0
    address: str | None = None  # of a Ray cluster; None: one of its own on this machine


@dataclass(frozen=True)
class ControlConfig:
    """What the Control Unit is told; None: as the cluster file says, or else its default."""

    mode: Mode | None = None
    max_lag: int | None = None
    refresh: Refresh | None = None
    pacing: Pacing | None = None
    carry: Carry = "tokens"
    refresh_each_epoch: bool = False  # deal each epoch by what earlier steps showed


@dataclass(frozen=True)
class CutConfig:
    """Minibatches and steps where there is no schedule."""

    samples_per_prompt: int = 8
    batch_size: int = 32  # prompts in a minibatch
    group_size: int = 8  # minibatches in a step
    epochs: int = 1


@dataclass(frozen=True)
class TimedConfig:
    """What stands in for a model."""

    cluster: str  # file
    lengths: str  # file
    profile: str | None = None  # file with recorded lengths
    scale: float = 1.0  # real seconds a second of the cluster file


DEFAULT_CAP = 1024  # tokens


@dataclass(frozen=True)
class ModelConfig:
    """A model, and how it generates and learns."""

    model: str  # directory
    prompts: str  # file
    reward: str  # name, or module:function
    prompt_column: str = DEFAULT_PROMPT_COLUMN
    lengths: str | None = None  # file, from which the schedule was made; to refresh it
    engine: LocalEngine = "transformers"  # what generates
    units: int = 1  # Generation Units
    actors: int = 1  # engines in each
    slots: int = 32  # responses that an engine decodes at once
    batching: Batching | None = None  # None: continuous with vLLM, else static
    max_response_tokens: int | None = None  # the cap; None: the schedule's, else DEFAULT_CAP
    temperature: float = 1.0
    loss: Literal["grpo", "dr_grpo", "dapo"] = "grpo"
    lag_correction: Literal["truncated", "decoupled", "none"] = "truncated"
    zero_advantage: Literal["keep", "skip"] = "keep"  # groups of equal rewards
    learning_rate: float = 1e-6
    kl_coefficient: float = 0.0
    tokens_per_micro_batch: int = 8192  # memory, not result
