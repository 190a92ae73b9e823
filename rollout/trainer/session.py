"""Who tells the Control Unit what happens?

The simulator does so in virtual time; here are processes. A *session* goes from a checkpoint to the
last step, or to the loss of the Training Unit. It has a Control Unit for what was left of the plan
at the checkpoint, and what it hears of units, judges and trainer becomes events. What follows from
these is carried out by `commands`.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rollout.control.inorder import InOrder
from rollout.control.messages import Train
from rollout.control.plan import Head, Plan
from rollout.control.unit import ControlUnit
from rollout.trainer.commands import Commands
from rollout.trainer.exchange import Ended, Free, Loaded, News, Refused, Unloaded
from rollout.trainer.resume import Checkpoint
from rollout.trainer.stock import Stock
from rollout.trainer.under_way import UnderWay
from stages.tables.errors import AspError, log

if TYPE_CHECKING:
    from rollout.trainer.driver import Driver

MOST_REFUSALS = 3  # by one unit or actor that loads nothing between: then it is not the snapshot


class Session:
    """From a checkpoint on."""

    def __init__(self, driver: "Driver", number: int, checkpoint: Checkpoint, plan: Plan) -> None:
        """Everything as it was at the checkpoint, and nothing that came after."""
        held = {each.group for each in checkpoint.held_over}
        self.plan = plan
        rest = plan.rest(checkpoint.version, held.union(driver.journal.lags()))
        self.control = ControlUnit(rest, driver.settings)
        self.stock = driver.accounts.stock = Stock(
            driver.plan, driver.machine.prompt_ids, driver.machine.cap,
            driver.settings.carry == "restart",
        )  # fmt: skip
        self.stock.hold(checkpoint.drafts or {})
        self.first_step = checkpoint.version
        self.version = checkpoint.version  # of the latest snapshot
        self.metrics: dict[str, Any] = {}  # of the last step
        self.num_trained = checkpoint.version  # steps
        self._num_refusals: Counter[str] = Counter()  # in a row, by unit or actor
        self._number = number
        self._driver = driver
        self._accounts = driver.accounts
        self._hosts = driver.hosts
        self._training = driver.training
        self._journal = driver.journal
        self._under_way = UnderWay(driver.config.response_timeout_s)
        self._commands = Commands(driver, self.control, self.stock, self._under_way, self)
        self.do = InOrder(self._commands.carry_out, self._note_occupancy).do

    @property
    def is_done(self) -> bool:
        """Whether every step was trained and the weights are written."""
        is_busy = self._training.is_busy or self._driver.epochs.is_dealing
        return self.control.is_done and not is_busy

    def begin(self, checkpoint: Checkpoint) -> None:
        """Have the weights published, and the units begin on them."""
        if self._number > 1:
            log.info("going on from policy version %d", checkpoint.version)
        self._accounts.record.event(self._accounts.now_s, "start", "TU", version=checkpoint.version)

        def start(version: int) -> None:
            self.version = version
            for unit in range(len(self._hosts.hosts)):
                self._start(unit)

        self._training.publish(start)
        self.do(self.control.resumed(checkpoint.held_over))

    def _start(self, unit: int) -> None:
        """A unit begins on the latest weights."""
        host = self._hosts.hosts[unit]
        self._accounts.settle(unit, host.states)
        host.states = {}
        self._hosts.start(unit, self.version, self._training.snapshots.path(self.version))

    def heard(self, news: News) -> None:
        """News of an actor."""
        match news:
            case Ended(actor, number, drafts):
                work = self._under_way.end(number)
                if work is not None:
                    self.stock.take_back(drafts)
                    self._driver.note("end", actor, work)
                    cut = self.stock.unfinished(drafts)
                    commands = self.control.ended(number, cut)
                    self.stock.cut(cut)
                    self._under_way.cut(cut)
                    self.do(commands)
            case Free(actor):
                self.do(self.control.free(actor))
            case Unloaded(actor, drafts_w):
                unfinished = {}
                for number, drafts in drafts_w.items():
                    self._under_way.end(number)
                    self.stock.take_back(drafts)
                    unfinished[number] = self.stock.unfinished(drafts)
                self.do(self.control.unloaded(actor, unfinished))
            case Loaded(actor, version):
                del self._num_refusals[f"actor {actor}"]
                self._driver.note("reloaded", actor, version=version)
                self.do(self.control.reloaded(actor, version))
            case Refused(actor, reason):
                self._refused(
                    f"actor {actor}", reason, lambda version: self._commands.load(actor, version)
                )

    def joined(self, unit: int, actors: Sequence[int], slots: Sequence[int]) -> None:
        """A unit is there; its actors stand for the instances that they would in a simulation."""
        del self._num_refusals[f"unit {unit}"]
        self._accounts.start_clock()
        first = sum(each.num_actors for each in self._driver.machine.units[:unit])
        version = self._hosts.hosts[unit].version
        for place, (actor, num_slots) in enumerate(zip(actors, slots, strict=True)):
            self._driver.note("join", actor, version=version)
            self.do(self.control.joined(actor, version, num_slots, first + place))

    def lost(self, unit: int, actors: Sequence[int]) -> None:
        """A unit is gone; another begins."""
        host = self._hosts.hosts[unit]
        self._accounts.settle(unit, host.states, time.monotonic() - host.heard_s)
        host.states = {}
        for actor in actors:
            self._accounts.record.event(self._accounts.now_s, "lost", f"GU{unit}", actor)
            self._under_way.lose(actor)
            self.do(self.control.lost(actor))
        self._start(unit)

    def cannot_start(self, unit: int, reason: str) -> None:
        """It refuses the snapshot."""
        self._refused(f"unit {unit}", reason, lambda _: self._start(unit))

    def _refused(self, who: str, reason: str, load_again: Callable[[int], None]) -> None:
        """The snapshot is damaged: have it written again. Or, if that did not help, it is not."""
        self._num_refusals[who] += 1
        if self._num_refusals[who] >= MOST_REFUSALS:
            raise AspError(reason)
        log.warning("a snapshot is written again: %s", reason)

        def published(version: int) -> None:
            self.version = max(self.version, version)
            load_again(version)

        self._training.publish(published)

    def scored(self, group: int, rewards: tuple[float, ...] | None) -> None:
        """A sample group has its rewards; None: they never came."""
        self.stock.judged(group, rewards)
        self._journal.note([group], "queued")
        failed = [group] if self.stock.has_failed(group) else []
        self.do(self.control.scored([group], failed))

    def trained(self, train: Train, metrics: dict[str, Any], seconds: float) -> None:
        """The Training Unit has made a step, in so long."""
        if train.groups and train.failed.issuperset(train.groups):
            log.warning(
                "step %d had nothing to train on: none of its %d sample groups has its rewards",
                train.step, len(train.groups),
            )  # fmt: skip
        version = self.num_trained = train.step + 1
        self.metrics = metrics
        row = self._accounts.trained(train, seconds)
        self._accounts.record.event(self._accounts.now_s, "trained", "TU", version=version)
        tokens = [
            (self.stock.tokens_of(group), self.stock.offered_tokens_of(group))
            for group in train.groups
        ]
        self._journal.trained(train, tokens, row, metrics)
        self.stock.forget(train.groups)
        self._training.publish(self._published)
        if version % self._driver.config.checkpoint_every == 0 or version == self.plan.num_steps:
            held = tuple(self.control.held_over(version))
            checkpoint = Checkpoint(version, self._number, held, self.stock.held(held))
            self._training.save(self._driver.saved_at(checkpoint), lambda: self._saved(checkpoint))
        held_epoch = self._driver.epochs.trained(version, self._dealt)
        if held_epoch is not None:
            self.control.hold_epoch(held_epoch)
        self.do(self.control.trained(train.step))

    def _dealt(self, epoch: int, heads: Sequence[Head] | None) -> None:
        self.do(self.control.dealt(epoch, heads))

    def _saved(self, checkpoint: Checkpoint) -> None:
        self._journal.saved(checkpoint)
        self._driver.place.keep(self._journal.checkpoints())

    def _published(self, version: int) -> None:
        self.version = max(self.version, version)
        if not self.control.is_done:
            self._driver.waiting.after(
                self._driver.machine.publication_seconds, lambda: self._told_of(version)
            )

    def _told_of(self, version: int) -> None:
        self._accounts.record.event(self._accounts.now_s, "published", "TU", version=version)
        self.do(self.control.published(version))

    def _note_occupancy(self) -> None:
        inventory = self.control.inventory
        self._accounts.record.occupancy(self._accounts.now_s, inventory.queued, inventory.position)
