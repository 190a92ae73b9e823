"""When is an epoch dealt anew, and what waits for that?

A head of step s starts only on a policy version of at least s - H, H the lag bound. So when version
f - H is made, f an epoch's first step, none of its heads was started, and all steps before that
version are trained on: by these it is dealt (`redeal.py`), in a process of its own. Only its heads
wait for that.

The last H steps of an epoch count at the end of the next. After the last epoch lengths are
refreshed once more, for a run to come. A deal is forgotten with the steps that it rests on, and
made again from those that take their place, so a run goes by what its surviving history says. One
that failed is remembered likewise: steps may have been trained since on the heads as scheduled.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import polars as pl
import ray

from rollout.control.plan import Head, Plan
from rollout.trainer.journal import Journal
from rollout.trainer.redeal import LENGTHS, Recipe, heads_of, redeal
from rollout.trainer.resume import Deal
from rollout.trainer.rundir import RunDir
from rollout.trainer.waiting import Waiting, first_line
from stages.tables.errors import AspError, log

OnDealt = Callable[[int, tuple[Head, ...] | None], None]


def due_versions(plan: Plan, max_lag: int) -> dict[int, int]:
    """The version at which each epoch is dealt anew; the last entry, at the end, is of none.

    An epoch that may begin before anything was trained on keeps its plan.
    """
    first_e: dict[int, int] = {}
    for head in plan.heads:
        first_e.setdefault(head.epoch, head.step)
    due = {step - max_lag: epoch for epoch, step in first_e.items() if step > max_lag}
    return due | {plan.num_steps: max(first_e) + 1}


class Epochs:
    """The plan of a run, as far as its epochs were dealt."""

    def __init__(
        self,
        waiting: Waiting,
        journal: Journal,
        place: RunDir,
        plan: Plan,
        max_lag: int,
        recipe: Recipe | None,
        check: Callable[[Plan], None],
    ) -> None:
        """Begin with the plan as it was scheduled.

        Args:
            waiting: Of the driver.
            journal: Of the run.
            place: Its directory.
            plan: As scheduled.
            max_lag: The lag bound.
            recipe: How to deal; None: all epochs are as scheduled.
            check: Raises AspError where a plan does not fit the run.
        """
        self._waiting = waiting
        self._journal = journal
        self._place = place
        self._scheduled = plan
        self._recipe = recipe
        self._check = check
        self._due = {} if recipe is None else due_versions(plan, max_lag)
        self._session = 0
        self._queue: deque[tuple[int, int, OnDealt]] = deque()  # of versions and epochs

    @property
    def is_dealing(self) -> bool:
        """Whether one is being dealt."""
        return bool(self._queue)

    def restore(self, version: int, session: int) -> Plan:
        """The plan at a checkpoint where a session begins, after the journal was rolled back."""
        if self._recipe is not None:
            self._place.keep_lengths(min(self._scheduled.epoch_g), self._recipe.lengths)
        self._queue.clear()
        self._session = session
        deals, plan = self._journal.deals(), self._scheduled
        for due, epoch in self._due.items():
            if due > version:
                self._place.forget_refreshed(epoch)
                continue
            deal = deals.get(epoch)
            heads = self._made_again(due, epoch) if deal is None else deal.heads
            plan = plan if heads is None else plan.redealt(epoch, heads)
        return plan

    def trained(self, version: int, on_dealt: OnDealt) -> int | None:
        """A version was made; the epoch that is to wait until it is dealt, if there is one.

        Args:
            version: The version.
            on_dealt: Is told the epoch and its heads; None: they stay.
        """
        epoch = self._due.get(version)
        if epoch is None:
            return None
        self._queue.append((version, epoch, on_dealt))
        if len(self._queue) == 1:
            self._next()
        return epoch if self._is_dealt(epoch) else None

    def _next(self) -> None:
        """Deal the first in the queue: the lengths of one are where the next goes on."""
        version, epoch, on_dealt = self._queue[0]

        def done(heads: tuple[Head, ...] | None) -> None:
            self._queue.popleft()
            if self._is_dealt(epoch):
                on_dealt(epoch, heads)
            if self._queue:
                self._next()

        self._waiting.call(
            self._begin(version, epoch),
            lambda groups: done(self._dealt(version, epoch, groups)),
            lambda error: done(self._failed(version, epoch, error)),
        )

    def _begin(self, version: int, epoch: int) -> Any:
        """Let it be made in a process."""
        assert self._recipe is not None, "an epoch is due"
        earlier = [
            deal
            for deal in self._journal.deals().values()
            if deal.version < version and not deal.has_failed
        ]
        beginning = Deal(min(self._scheduled.epoch_g), 0, None)
        last = max([beginning, *earlier], key=lambda deal: deal.version)
        remote = ray.remote(num_cpus=0)(redeal)
        return remote.remote(
            self._recipe, self._place.refreshed(last.epoch) / LENGTHS,
            self._journal.made(last.version, version),
            epoch if self._is_dealt(epoch) else None,
            self._place.refreshing(epoch, self._session),
        )  # fmt: skip

    def _made_again(self, version: int, epoch: int) -> tuple[Head, ...] | None:
        """It was under way when the run was broken off."""
        try:
            return self._dealt(version, epoch, ray.get(self._begin(version, epoch)))
        except ray.exceptions.RayTaskError as error:
            return self._failed(version, epoch, error.cause)

    def _dealt(
        self, version: int, epoch: int, groups: pl.DataFrame | None
    ) -> tuple[Head, ...] | None:
        try:
            heads = None if groups is None else tuple(heads_of(self._scheduled, epoch, groups))
            if heads is not None:
                self._check(self._scheduled.redealt(epoch, heads))
        except AspError as error:
            return self._failed(version, epoch, error)
        self._place.keep_refreshed(epoch, self._session)
        self._journal.dealt(Deal(epoch, version, heads))
        if heads is not None:
            log.info("epoch %d is dealt anew, by the responses of %d steps", epoch, version)
        return heads

    def _failed(self, version: int, epoch: int, error: Exception) -> tuple[Head, ...] | None:
        if not isinstance(error, AspError):
            raise error
        what = (
            f"epoch {epoch} stays as scheduled"
            if self._is_dealt(epoch)
            else "lengths are not refreshed"
        )
        self._journal.dealt(Deal(epoch, version, None, has_failed=True))
        log.warning("%s: %s", what, first_line(str(error)))
        return None

    def _is_dealt(self, epoch: int) -> bool:
        """Whether it is one of the plan, and not what comes after."""
        return epoch in self._scheduled.epoch_g
