"""Where can a run go on, and with what?

Beside what the Training Unit saved, that is what the Control Unit cannot know from the plan: sample
groups that were carried over, and epochs that were dealt anew. Both are kept as JSON.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from rollout.control.messages import HeldOver, Response, Unfinished
from rollout.control.plan import Head


@dataclass(frozen=True)
class Checkpoint:
    """Where a run can go on, beside what the Training Unit saved."""

    version: int = 0
    session: int = 0  # in which it was saved; 0: it is the beginning, and nothing was
    held_over: tuple[HeldOver, ...] = ()
    drafts: dict[str, Any] | None = None  # as `Stock.held` gave them

    def row(self) -> tuple[int, int, str, str]:
        """As it is kept."""
        return self.version, self.session, json.dumps(self.held_over), json.dumps(self.drafts)

    @classmethod
    def of(cls, version: int, session: int, held_over: str, drafts: str) -> "Checkpoint":
        """From its row."""
        held = tuple(map(_held_over, json.loads(held_over)))
        return cls(version, session, held, json.loads(drafts))


@dataclass(frozen=True)
class Deal:
    """An epoch's heads, dealt anew from what earlier steps showed."""

    epoch: int
    version: int  # that was made when it was dealt: the steps before it count
    heads: tuple[Head, ...] | None  # None: they are as scheduled, or it is what comes after
    has_failed: bool = False  # no lengths were refreshed either

    def row(self) -> tuple[int, int, str, bool]:
        """As it is kept."""
        heads = None if self.heads is None else [asdict(head) for head in self.heads]
        return self.epoch, self.version, json.dumps(heads), self.has_failed

    @classmethod
    def of(cls, epoch: int, version: int, heads: str, failed: int) -> "Deal":
        """From its row."""
        known = json.loads(heads)
        dealt = None if known is None else tuple(Head(**head) for head in known)
        return cls(epoch, version, dealt, bool(failed))


def _held_over(values: list[Any]) -> HeldOver:
    group, step, first_version, unfinished = values
    left = tuple(Unfinished(s, r, Response(*response)) for s, r, response in unfinished)
    return HeldOver(group, step, first_version, left)
