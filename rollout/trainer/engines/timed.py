"""What would an engine take, in scaled real time, without a model?

It replays recorded lengths and sleeps as long as the cost model says, times a scale. So the whole
machine runs as it would, and faster: for tests, and to hold the simulator against.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollout.simulator.price import Price
from rollout.trainer.samples import Draft
from rollout.trainer.sealed import check_seal

WEIGHTS_FILE = "timed.json"


@dataclass(frozen=True)
class Pace:
    """How long things take."""

    price: Price
    reload_seconds: float
    scale: float  # real seconds a second of the cost model
    is_static: bool  # slots stay taken until the engine is empty


class Sleeper:
    """Sleeps to a time that was due, so that what happens in between costs nothing."""

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._due_s = 0.0

    def start(self) -> None:
        """What comes next begins now."""
        self._due_s = time.monotonic()

    def sleep(self, seconds: float) -> None:
        """So many seconds, scaled, from when the last sleep was due."""
        self._due_s += seconds * self._scale
        time.sleep(max(0.0, self._due_s - time.monotonic()))


class TimedEngine:
    """Decodes by sleeping."""

    def __init__(self, lengths_g: Sequence[Sequence[int]], pace: Pace) -> None:
        """Begin without weights.

        Args:
            lengths_g: True lengths [tokens] of each sample group's responses.
            pace: How long things take.
        """
        self._lengths_g = lengths_g
        self._pace = pace
        self._sleeper = Sleeper(pace.scale)
        self._drafts: list[Draft] = []
        self._num_held = self._context = 0  # slots, and tokens in them
        self._version = -1

    @property
    def slots(self) -> int:
        """Of the price."""
        return self._pace.price.slots

    @property
    def version(self) -> int:
        """As told by `load`."""
        return self._version

    def load(self, version: int, snapshot: Path) -> None:
        """Read the snapshot, as a real engine would, and take the time for it."""
        self._sleeper.start()
        read_weights(snapshot)
        self._sleeper.sleep(self._pace.reload_seconds)
        self._version = version

    def add(self, drafts: Sequence[Draft]) -> None:
        """Prefill."""
        assert self._num_held + len(drafts) <= self.slots, "more drafts than slots"
        if not self._drafts:
            self._sleeper.start()
        context = sum(len(draft.prompt_ids) + len(draft.token_ids) for draft in drafts)
        self._drafts += drafts
        self._num_held += len(drafts)
        self._context += context
        self._sleeper.sleep(self._pace.price.prefill * context)

    def decode(self, num_steps: int) -> list[Draft]:
        """Up to the next end, or, static, to the last."""
        left = [self._left(draft) for draft in self._drafts]
        num_steps = min(num_steps, max(left) if self._pace.is_static else min(left))
        price = self._pace.price
        self._sleeper.sleep(price.decode_seconds(num_steps, self._num_held, self._context))
        self._context += num_steps * self._num_held
        for draft, most in zip(self._drafts, left, strict=True):
            self._grow(draft, min(num_steps, most))
        through = [draft for draft in self._drafts if not self._left(draft)]
        self._drafts = [draft for draft in self._drafts if self._left(draft)]
        if not self._pace.is_static:
            self._num_held -= len(through)
            self._context -= sum(len(d.prompt_ids) + len(d.token_ids) for d in through)
        elif not self._drafts:
            self._num_held = self._context = 0
        return through

    def put_down(self) -> list[Draft]:
        """At once."""
        drafts, self._drafts = self._drafts, []
        self._num_held = self._context = 0
        return drafts

    def _left(self, draft: Draft) -> int:
        """Tokens until it is through."""
        return min(self._length(draft), draft.limit) - len(draft.token_ids)

    def _length(self, draft: Draft) -> int:
        return self._lengths_g[draft.group][draft.sample]

    def _grow(self, draft: Draft, num_tokens: int) -> None:
        draft.token_ids += [0] * num_tokens
        draft.logprobs += [0.0] * num_tokens
        draft.versions += [self._version] * num_tokens
        if len(draft.token_ids) == self._length(draft):
            draft.end = "stop"


def open_timed_engine(
    lengths_g: Sequence[Sequence[int]], pace_u: Sequence[Pace], unit: int, place: int
) -> TimedEngine:
    """The engine of any place in a Generation Unit."""
    return TimedEngine(lengths_g, pace_u[unit])


def read_weights(directory: Path) -> dict[str, Any]:
    """What a timed Training Unit wrote.

    Raises:
        AspError: It is damaged.
    """
    check_seal(directory)
    return dict(json.loads((directory / WEIGHTS_FILE).read_text()))
