"""What does a process do that scores responses?

It holds the reward and, for a model, the tokenizer that turns tokens into text. A reward is the
user's code: it may raise, hang, or take its process with it, so it has one of its own.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rollout.trainer.rewards.reward import Reward

Decode = Callable[[Sequence[int]], str]


class Judge:
    """A reward in a process of its own; the driver makes it a Ray actor."""

    def __init__(
        self, open_reward: Callable[[], Reward], open_decode: Callable[[], Decode]
    ) -> None:
        self._reward = open_reward()
        self._decode = open_decode()

    def process(self) -> int:
        """Its process id."""
        return os.getpid()

    def score(self, responses: Sequence[Sequence[int]], row: Mapping[str, Any]) -> list[float]:
        """A reward for each response to one prompt.

        Raises:
            AspError: The reward says that the row is wrong.
            ValueError: The reward gave back something else than so many finite numbers.
        """
        texts = [self._decode(tokens) for tokens in responses]
        rewards = [float(reward) for reward in self._reward(texts, row)]
        if len(rewards) != len(texts) or not all(map(math.isfinite, rewards)):
            raise ValueError(
                f"{len(texts)} responses got the rewards {rewards[:4]}; as many finite numbers "
                "are needed"
            )
        return rewards
