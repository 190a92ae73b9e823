"""What does the training unit do, and what is its time spent on?"""

from functools import partial

from rollout.control.messages import Train
from rollout.simulator.events import Priority
from rollout.simulator.generation import Generation
from rollout.simulator.world import World


class Training:
    """One training unit, of its own devices or, colocated, of those of the actors."""

    def __init__(self, world: World, generation: Generation) -> None:
        self._world = world
        self._generation = generation
        self._idle_since_s: float | None = None if world.cluster.is_colocated else 0.0

    @property
    def num_devices(self) -> int:
        """Of its own."""
        return 0 if self._world.cluster.is_colocated else self._world.cluster.training.num_devices

    def finish(self) -> None:
        """Enter the time since its last step."""
        self._leave_idle()

    def train(self, train: Train) -> None:
        """Take sample groups, train, export; the weights are published beside the next step."""
        world, cluster, unit = self._world, self._world.cluster, self._world.cluster.training
        seconds = export = publication = switch = 0.0
        if train.groups:
            tokens = sum(map(world.workload.tokens, train.groups))
            num_devices = self.num_devices or self._generation.num_devices
            seconds = unit.train_seconds(tokens, num_devices)
            export, publication = unit.export_seconds, unit.publication_seconds
            switch = cluster.switching_seconds if cluster.is_colocated else 0.0
        world.record.taken(world.now_s, train)
        if train.groups:
            world.record.trained(world.now_s, train, world.now_s + switch + seconds)
        if cluster.is_colocated:
            self._generation.give_way(seconds, 2 * switch, export)
        else:
            self._leave_idle()
            spent = world.ledger_u["TU"]
            spent.useful += seconds * self.num_devices
            spent.reload += export * self.num_devices
        world.after(
            switch + seconds + export + switch, Priority.TRAINING,
            partial(self._trained, train.step, publication),
        )  # fmt: skip

    def _trained(self, step: int, publication: float) -> None:
        world = self._world
        if world.cluster.is_colocated:
            self._generation.take_back()
        else:
            self._idle_since_s = world.now_s
        world.record.event(world.now_s, "trained", "TU", version=step + 1)
        world.do(world.control.trained(step))
        if not world.control.is_done:
            world.after(publication, Priority.WEIGHTS, partial(self._published, step + 1))

    def _published(self, version: int) -> None:
        world = self._world
        world.version = max(world.version, version)
        world.record.event(world.now_s, "published", "TU", version=version)
        world.do(world.control.published(version))

    def _leave_idle(self) -> None:
        if self._idle_since_s is not None:
            waited = self._world.now_s - self._idle_since_s
            self._world.ledger_u["TU"].sorting += waited * self.num_devices
            self._idle_since_s = None
