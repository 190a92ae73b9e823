"""Who keeps a run going, whatever is killed?

The driver has the processes. It begins a session at the newest checkpoint, and where the Training
Unit is lost the next, until one comes to the last step.
"""

import time
from collections.abc import Callable
from pathlib import Path

from rollout.control.inventory import Inventory
from rollout.control.messages import Work
from rollout.control.plan import Plan
from rollout.control.settings import ControlSettings
from rollout.simulator.simulate import check_slots
from rollout.trainer.accounts import Accounts
from rollout.trainer.config import RunConfig
from rollout.trainer.epochs import Epochs
from rollout.trainer.hosts import Hosts
from rollout.trainer.journal import Journal
from rollout.trainer.machine import Machine
from rollout.trainer.processes import Processes
from rollout.trainer.redeal import Recipe
from rollout.trainer.resume import Checkpoint
from rollout.trainer.rundir import RunDir
from rollout.trainer.scoring import Judges, NoReward, Scoring
from rollout.trainer.session import Session
from rollout.trainer.training import Training, TrainingLost
from rollout.trainer.waiting import Waiting

TICK_S = 0.2  # between commits of what has happened


class Driver:
    """One run, from its start to its last step."""

    def __init__(
        self,
        plan: Plan,
        settings: ControlSettings,
        machine: Machine,
        config: RunConfig,
        place: RunDir,
        journal: Journal,
        show: Callable[["Driver"], None],
        recipe: Recipe | None = None,
    ) -> None:
        """Begin all processes.

        Args:
            plan: What to generate and train on.
            settings: Of the Control Unit.
            machine: What the run consists of.
            config: How it goes.
            place: Its directory.
            journal: Of the run.
            show: Is called several times a second.
            recipe: How epochs are dealt anew; None: they are not.
        """
        self.plan = plan
        self.settings = settings
        self.machine = machine
        self.config = config
        self.place = place
        self.journal = journal
        self.waiting = Waiting()
        self.accounts = Accounts(journal, plan, machine.units, machine.num_training_devices)
        self.epochs = Epochs(
            self.waiting, journal, place, plan, settings.max_lag, recipe, self._check
        )
        processes = Processes(machine, config)
        self.training = Training(self.waiting, processes.training, self.accounts.exported)
        self.hosts = Hosts(
            self.waiting, processes.unit, [unit.num_actors for unit in machine.units],
            config.load_timeout_s,
        )  # fmt: skip
        self.scoring: Scoring = (
            NoReward(self.waiting, machine.reward_seconds)
            if machine.scores is None
            else Judges(
                self.waiting, processes.judge, config.num_judges, machine.scores.rows,
                config.reward_timeout_s,
            )
        )  # fmt: skip
        self.session: Session | None = None
        self._show = show

    def run(self) -> None:
        """Train every step.

        Raises:
            AspError: It can't go on; what was done is in the journal, and the run can be resumed.
        """
        while True:
            try:
                checkpoint = self.training.restore(self.journal.checkpoints(), self.saved_at)
                session = self._begin(checkpoint)
                while not session.is_done:
                    self.waiting.next(TICK_S)
                self._keep()
                return
            except TrainingLost as error:
                self._break_off()
                self.accounts.record.event(self.accounts.now_s, "lost", "TU")
                self.training.reopen(str(error))

    def finish(self) -> None:
        """The last snapshot is the trained model."""
        assert self.session is not None, "the run is over"
        self.place.finish(self.training.snapshots.path(self.session.version))

    def close(self) -> None:
        """End all processes."""
        self.hosts.close()
        self.training.close()
        self.scoring.close()

    def saved_at(self, checkpoint: Checkpoint) -> Path:
        """Where the Training Unit has, or would have, its part of a checkpoint."""
        return self.place.checkpoint(checkpoint.version, checkpoint.session)

    def note(
        self, event: str, actor: int, work: Work | None = None, version: int | None = None
    ) -> None:
        """Write an event of an actor down for the trace."""
        unit = self.hosts.unit(actor)
        self.accounts.record.event(
            self.accounts.now_s, event, "CU" if unit is None else f"GU{unit}", actor, work,
            self.hosts.state(actor).num_active, version,
        )  # fmt: skip

    def _check(self, plan: Plan) -> None:
        """Raise AspError where the queue or an engine is too small for it."""
        Inventory(self.settings, *plan.sizes())
        if self.machine.is_static:
            check_slots(plan, self.machine.units)

    def _begin(self, checkpoint: Checkpoint) -> Session:
        """Everything as it was at the checkpoint, and nothing that came after."""
        self.waiting.forget()
        self.scoring.forget()
        self.hosts.begin_session()
        number = self.journal.begin(checkpoint)
        self.place.begin(number)
        self.place.keep(self.journal.checkpoints())
        self.training.begin_session(self.place.snapshots(number))
        plan = self.epochs.restore(checkpoint.version, number)
        session = self.session = Session(self, number, checkpoint, plan)
        self.hosts.hears, self.scoring.on_scored = session, session.scored
        self.waiting.after(TICK_S, self._tick)
        session.begin(checkpoint)
        return session

    def _break_off(self) -> None:
        """What units made since their last news is void, and the clock stands."""
        for host in self.hosts.hosts:
            self.accounts.settle(host.number, host.states, time.monotonic() - host.heard_s)
            host.states = {}
        self.accounts.stop_clock()

    def _tick(self) -> None:
        self.waiting.after(TICK_S, self._tick)
        self._keep()
        self._show(self)

    def _keep(self) -> None:
        states_u = {host.number: host.states for host in self.hosts.hosts}
        pids = {f"GU{host.number}": host.pid for host in self.hosts.hosts if host.pid}
        if self.training.pid:
            pids["TU"] = self.training.pid
        self.accounts.keep(states_u, pids)
