"""How many tokens does one pass hold? Learned by running out of memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from stages.tables.errors import AspError, log

Done = TypeVar("Done")


@dataclass
class Memory:
    """Tokens of a pass, padding included; halved whenever they were too many."""

    tokens: int

    def attempt(self, work: Callable[[int], Done]) -> Done:
        """Run `work(tokens)`, again with half as many after running out of memory.

        Raises:
            AspError: A single token is too many.
        """
        while True:
            try:
                return work(self.tokens)
            except RuntimeError as error:
                if not _is_out_of_memory(error):
                    raise
            # Outside the handler, whose error keeps the failed pass's tensors alive.
            if self.tokens == 1:
                raise AspError(
                    "memory does not hold one prompt: give a smaller --max-prompt-tokens or a "
                    "smaller --base-model"
                )
            self.tokens //= 2
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            log.warning("out of memory: going on with batches of %d tokens", self.tokens)


def _is_out_of_memory(error: Exception) -> bool:
    """On a CPU torch says so in words only."""
    is_of_gpu = isinstance(error, torch.cuda.OutOfMemoryError)
    return is_of_gpu or "can't allocate memory" in str(error)
