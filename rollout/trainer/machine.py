"""What does a run consist of, whatever the engine?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollout.simulator.cluster import GenerationUnit
from rollout.trainer.engines.engine import Engine
from rollout.trainer.judge import Decode
from rollout.trainer.rewards.reward import Reward
from rollout.trainer.units import Trainer


@dataclass(frozen=True)
class Scores:
    """Where rewards come from."""

    open_reward: Callable[[], Reward]
    open_decode: Callable[[], Decode]
    rows: Sequence[dict[str, Any]]  # of the user's prompt file


@dataclass(frozen=True)
class Machine:
    """Units and what they hold. What opens an engine, a trainer or a reward goes to its process."""

    units: tuple[GenerationUnit, ...]
    is_static: bool  # an actor generates one minibatch at a time
    open_engine: Callable[[int, int], Engine]  # from unit and place in it
    open_trainer: Callable[[], Trainer]
    num_training_devices: int  # 0: generation and training take turns on those of the actors
    prompt_ids: Mapping[int, Sequence[int]]  # tokens of each prompt
    cap: int  # most tokens of a response
    scores: Scores | None  # None: every reward is 0
    reward_seconds: float = 0.0  # without rewards: what they would take
    publication_seconds: float = 0.0  # between a snapshot and its being told to the actors
