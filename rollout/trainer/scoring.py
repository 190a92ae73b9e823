"""Who scores which sample group, and what if no answer comes?

A few judges, one group at a time each. One that raises, hangs beyond its time or dies has failed
its group; a judge that hangs or died is replaced. A reward that raises AspError says where the
user's input is wrong, which time does not mend: that ends the run.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import ray

from rollout.trainer.waiting import Waiting, first_line, why_lost
from stages.tables.errors import AspError, log

MOST_FAILURES = 3
Rewards = tuple[float, ...]
OnScored = Callable[[int, Rewards | None], None]


class Scoring(Protocol):
    """Scores sample groups without being waited for."""

    on_scored: OnScored  # is told a group and its rewards, or None where they never came

    def score(self, group: int, prompt: int, responses: Sequence[Sequence[int]]) -> None:
        """Ask for the rewards of a group."""

    def forget(self) -> None:
        """Drop what is under way and what waits."""

    def close(self) -> None:
        """End every process."""


class NoReward:
    """Every reward is 0, after so many seconds: for runs without a model."""

    on_scored: OnScored

    def __init__(self, waiting: Waiting, seconds: float) -> None:
        self._waiting = waiting
        self._seconds = seconds

    def score(self, group: int, prompt: int, responses: Sequence[Sequence[int]]) -> None:
        """Later, also where that is at once: the driver is in the middle of something."""
        rewards = (0.0,) * len(responses)
        self._waiting.after(self._seconds, lambda: self.on_scored(group, rewards))

    def forget(self) -> None:
        """The moments are the driver's, who forgets them."""

    def close(self) -> None:
        """There is no process."""


@dataclass(frozen=True)
class Case:
    """A sample group to be scored."""

    group: int
    prompt: int
    responses: Sequence[Sequence[int]]


class Judges:
    """Processes that score."""

    on_scored: OnScored

    def __init__(
        self,
        waiting: Waiting,
        open_judge: Callable[[], Any],
        num_judges: int,
        rows: Sequence[dict[str, Any]],
        timeout_s: float,
    ) -> None:
        """Start them.

        Args:
            waiting: Of the driver.
            open_judge: Makes a Ray actor of class Judge.
            num_judges: How many.
            rows: Of the user's prompt file.
            timeout_s: Of one sample group.
        """
        self._waiting = waiting
        self._open_judge = open_judge
        self._rows = rows
        self._timeout_s = timeout_s
        self._cases: deque[Case] = deque()
        self._idle: list[Any] = []
        self._busy: dict[int, Any] = {}  # by sample group
        self._starting: set[Any] = set()
        self._num_failures = 0  # to start, one after the other
        for _ in range(num_judges):
            self._begin()

    def score(self, group: int, prompt: int, responses: Sequence[Sequence[int]]) -> None:
        """Now, or when a judge is idle."""
        self._cases.append(Case(group, prompt, responses))
        self._send()

    def forget(self) -> None:
        """The busy ones are replaced: what they score may hang."""
        self._cases.clear()
        for group in list(self._busy):
            self._replace(group)
        for judge in self._starting:  # the driver has forgotten that it waits for them
            self._wait_for(judge)

    def close(self) -> None:
        """End every process."""
        for judge in (*self._idle, *self._busy.values(), *self._starting):
            ray.kill(judge)

    def _begin(self) -> None:
        judge = self._open_judge()
        self._starting.add(judge)
        self._wait_for(judge)

    def _wait_for(self, judge: Any) -> None:
        """Its time begins when its process is up."""
        self._waiting.call(
            judge.process.remote(), lambda _: self._begun(judge), partial(self._not_begun, judge)
        )

    def _begun(self, judge: Any) -> None:
        if judge in self._starting:
            self._num_failures = 0
            self._starting.remove(judge)
            self._idle.append(judge)
            self._send()

    def _not_begun(self, judge: Any, error: Exception) -> None:
        if judge in self._starting:
            self._starting.remove(judge)
            self._num_failures += 1
            if self._num_failures > MOST_FAILURES:
                raise AspError(
                    f"no process that scores can be started: {why_lost(error)}; see to --reward"
                ) from None
            self._begin()

    def _send(self) -> None:
        while self._cases and self._idle:
            case, judge = self._cases.popleft(), self._idle.pop()
            self._busy[case.group] = judge
            self._waiting.call(
                judge.score.remote(case.responses, self._rows[case.prompt]),
                partial(self._scored, case, judge),
                partial(self._failed, case, judge),
            )
            self._waiting.after(self._timeout_s, partial(self._too_late, case, judge))

    def _scored(self, case: Case, judge: Any, rewards: Sequence[float] | None) -> None:
        if self._busy.get(case.group) is judge:
            self._idle.append(self._busy.pop(case.group))
            self.on_scored(case.group, None if rewards is None else tuple(rewards))
            self._send()

    def _failed(self, case: Case, judge: Any, error: Exception) -> None:
        if self._busy.get(case.group) is judge:
            if isinstance(error, AspError):
                raise AspError(f"prompt_id {case.prompt}: {error}") from None
            log.warning(
                "no reward for prompt %d: %s; its responses are not trained on", case.prompt,
                first_line(f"{type(error).__name__}: {error}"),
            )  # fmt: skip
            if isinstance(error, ray.exceptions.RayError):
                self._replace(case.group)
                self.on_scored(case.group, None)
                self._send()
            else:
                self._scored(case, judge, None)

    def _too_late(self, case: Case, judge: Any) -> None:
        if self._busy.get(case.group) is judge:
            log.warning(
                "no reward for prompt %d within %g s; its responses are not trained on",
                case.prompt, self._timeout_s,
            )  # fmt: skip
            self._replace(case.group)
            self.on_scored(case.group, None)
            self._send()

    def _replace(self, group: int) -> None:
        ray.kill(self._busy.pop(group))
        self._begin()
