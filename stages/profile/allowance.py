"""How many tokens may still be made?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

Work = TypeVar("Work")


@dataclass
class Allowance:
    """A budget of response tokens.

    Work is handed out while something of it is left, and what was handed out is finished: stopping
    it would keep short responses and lose long ones. So no more than that is spent beyond it.
    """

    max_tokens: int | None  # None: no limit
    num_spent: int = 0

    def spend(self, num_tokens: int) -> None:
        """Take tokens that were made off it."""
        self.num_spent += num_tokens

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.max_tokens is not None and self.num_spent >= self.max_tokens

    def until_spent(self, work: Iterable[Work]) -> Iterator[Work]:
        """Hand out work until the tokens are spent."""
        for item in work:
            if self.is_spent:
                return
            yield item
