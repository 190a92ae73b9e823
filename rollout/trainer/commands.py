"""What becomes of a command of the Control Unit?

A call: of an actor, of a judge or of the Training Unit. What comes of the call is news again, for
the session.
"""

from typing import TYPE_CHECKING, Any, Protocol

from rollout.control.messages import (
    Command,
    Dispatch,
    Hold,
    Reload,
    Requeue,
    Score,
    Train,
    Unload,
    Work,
)
from rollout.control.unit import ControlUnit
from rollout.trainer.exchange import Generate, Load, PutDown
from rollout.trainer.stock import Stock
from rollout.trainer.under_way import UnderWay

if TYPE_CHECKING:
    from rollout.trainer.driver import Driver


class Follows(Protocol):
    """Whom the news of judges and trainer is for."""

    def scored(self, group: int, rewards: tuple[float, ...] | None) -> None:
        """A sample group has its rewards; None: they never came."""

    def trained(self, train: Train, metrics: dict[str, Any], seconds: float) -> None:
        """The Training Unit has made a step."""


class Commands:
    """Carries them out."""

    def __init__(
        self,
        driver: "Driver",
        control: ControlUnit,
        stock: Stock,
        under_way: UnderWay,
        session: Follows,
    ) -> None:
        """Of one session.

        Args:
            driver: Has the processes.
            control: Whose commands they are.
            stock: The drafts that are handed out, and what is trained on.
            under_way: Is told of what is dispatched.
            session: Hears what comes of it.
        """
        self._driver = driver
        self._control = control
        self._stock = stock
        self._under_way = under_way
        self._session = session
        self._accounts = driver.accounts
        self._hosts = driver.hosts
        self._training = driver.training
        self._journal = driver.journal

    def carry_out(self, command: Command) -> None:
        """Do one."""
        match command:
            case Dispatch(actor, work):
                self._dispatch(actor, work)
            case Hold(actor, reason):
                self._driver.note(f"hold: {reason}", actor)
            case Unload(actor):
                self._driver.note("unload", actor)
                self._hosts.tell(PutDown(actor))
            case Reload(actor, version):
                self._driver.note("reload", actor)
                self.load(actor, version)
            case Score(groups):
                self._journal.note(groups, "generated")
                for group in groups:
                    self._score(group)
            case Train():
                self._train(command)
            case Requeue(work):
                self._accounts.record.event(self._accounts.now_s, "requeue", "CU", work=work)

    def load(self, actor: int, version: int) -> None:
        """Have an actor load weights."""
        self._hosts.tell(Load(actor, version, self._training.snapshots.path(version)))

    def _dispatch(self, actor: int, work: Work) -> None:
        groups = {response.group for response in work.responses}
        self._journal.note(groups, "dispatched", self._control.fleet.actors[actor].version)
        seconds = self._under_way.begin(work, actor, self._accounts.now_s)
        self._hosts.tell(Generate(actor, work.number, self._stock.hand_out(work), seconds))
        patience_s = max(seconds, 0.0) + self._driver.config.grace_s
        self._driver.waiting.after(patience_s, lambda: self._too_late(work))
        self._driver.note("dispatch", actor, work)

    def _too_late(self, work: Work) -> None:
        actor = self._under_way.actor_of(work)
        unit = None if actor is None else self._hosts.unit(actor)
        if unit is not None:
            self._hosts.kill(unit, "it does not answer, long after the time of its work")

    def _score(self, group: int) -> None:
        if self._stock.has_failed(group):
            self._driver.waiting.after(0.0, lambda: self._session.scored(group, None))
        else:
            prompt = self._control.plan.prompt_g[group]
            self._driver.scoring.score(group, prompt, self._stock.responses(group))

    def _train(self, train: Train) -> None:
        self._accounts.record.taken(self._accounts.now_s, train)
        groups = [
            self._stock.sample_group(group, lag)
            for group, lag in zip(train.groups, train.lags, strict=True)
        ]
        self._training.train(groups, lambda *done: self._session.trained(train, *done))
