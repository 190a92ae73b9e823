"""Which settings are worth a try on a cluster?

Each lever has a few values, in ascending order where they have one. The *plain* setting is what
there would be without a planner: the cluster file's split and lag bound, the stages' defaults.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from rollout.planner.setting import Setting, Split
from rollout.simulator.clusterfile import ClusterFile
from stages.balance.config import Policy
from stages.tables.errors import AspError

LEVERS = tuple(field.name for field in fields(Setting))
BATCH_SIZES = (8, 16, 32, 64)
BATCH_SIZE = 32  # the default of partition
SLACKS = (0.0, 0.25, 0.5)
SLACK = 0.25  # the default of partition
ROUNDS = (0, 1, 2, 6)
MOST_SPLITS = 9
PROMPTS_PER_GROUP = 256  # 8 minibatches of 32, the stages' defaults


@dataclass(frozen=True)
class Wishes:
    """Values that the user names; none: the planner's own. The first is the plain one."""

    training_devices: tuple[int, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    slacks: tuple[float, ...] = ()
    prompts_per_group: tuple[int, ...] = ()
    policies: tuple[Policy, ...] = ()
    max_rounds: tuple[int, ...] = ()
    max_lags: tuple[int, ...] = ()


@dataclass(frozen=True)
class Space:
    """The values of each lever, and which of their combinations a cluster can run."""

    plain: Setting
    values: Mapping[str, tuple[Any, ...]]
    samples_per_prompt: int
    devices_per_actor: int
    slots: int | None  # that a minibatch must fit into; None: the engine refills them
    queue_capacity: int | None
    is_split_named: bool  # by the user, who then knows which numbers of devices can train

    def holds(self, setting: Setting) -> bool:
        """Whether the cluster can run it, and no other setting says the same."""
        step = setting.prompts_per_group * self.samples_per_prompt
        queued = (setting.max_lag + 1) * step + setting.largest_minibatch(self.samples_per_prompt)
        return (
            self.fits(setting)
            and (setting.max_lag > 0 or not setting.max_rounds)
            and (self.queue_capacity is None or queued <= self.queue_capacity)
        )

    def fits(self, setting: Setting) -> bool:
        """Whether its minibatches fit into the slots, and into a training step."""
        largest = setting.largest_minibatch(self.samples_per_prompt)
        is_within_slots = self.slots is None or largest <= self.slots
        return is_within_slots and setting.batch_size <= setting.prompts_per_group

    def takes_no_more(self, setting: Setting, other: Setting) -> bool:
        """Whether it has no more lag, devices or rounds than another."""
        devices, others = (
            split.num_actors * self.devices_per_actor + split.training_devices
            for split in (setting.split, other.split)
        )
        return (
            setting.max_lag <= other.max_lag
            and devices <= others
            and setting.max_rounds <= other.max_rounds
        )

    def smaller(self, split: Split) -> Iterator[Split]:
        """Some devices fewer, about an eighth: that train, then that generate."""
        number = split.training_devices
        fewer = number - max(1, number // 8)
        if self.is_split_named:
            named = (other.training_devices for other in self.values["split"])
            fewer = max((other for other in named if other < number), default=0)
        if fewer >= 1:
            yield split._replace(training_devices=fewer)
        if split.num_actors > 1:
            yield split._replace(num_actors=split.num_actors - max(1, split.num_actors // 8))

    def turned(self, setting: Setting, lever: str, value: Any) -> Setting:
        """With one lever at a value; without lag nothing is carried."""
        turned = replace(setting, **{lever: value})
        return turned if turned.max_lag else replace(turned, max_rounds=0)

    def singles(self) -> Iterator[tuple[str, Setting]]:
        """Every way to turn one lever of the plain setting."""
        for lever in LEVERS:
            for value in self.values[lever]:
                yield from self._other(self.plain, lever, value)

    def neighbours(self, setting: Setting) -> Iterator[Setting]:
        """One lever turned: to any policy, else to the value below or above."""
        for lever in LEVERS:
            values = self.values[lever]
            at = values.index(getattr(setting, lever))
            near = values if lever == "policy" else values[max(0, at - 1) : at + 2]
            for value in near:
                yield from (other for _, other in self._other(setting, lever, value))

    def _other(self, setting: Setting, lever: str, value: Any) -> Iterator[tuple[str, Setting]]:
        turned = self.turned(setting, lever, value)
        if turned != setting and self.holds(turned):
            yield lever, turned


def space_of(
    found: ClusterFile, wishes: Wishes, samples_per_prompt: int, num_prompts: int
) -> Space:
    """The settings to try.

    Args:
        found: The cluster; its max_lag is the largest lag bound that is tried.
        wishes: What the user names.
        samples_per_prompt: The n of training.
        num_prompts: There are; a training step has no more.

    Raises:
        AspError: What was named leaves nothing that the cluster can run.
    """
    slots = None
    if found.cluster.engine == "static":
        slots = min(unit.slots for unit in found.cluster.generation)
        if slots < samples_per_prompt:
            raise AspError(
                f"{found.name}: generation.slots is {slots}, less than the {samples_per_prompt} "
                "responses of one prompt, which a static engine holds together; give more"
            )
    per_group = wishes.prompts_per_group or (PROMPTS_PER_GROUP,)
    per_group = tuple(dict.fromkeys(min(size, num_prompts) for size in per_group))
    largest = max(per_group) if slots is None else min(max(per_group), slots // samples_per_prompt)
    batches = wishes.batch_sizes or tuple(size for size in BATCH_SIZES if size <= largest)
    batches = batches or (largest,)
    if min(batches) > min(per_group):
        raise AspError(
            f"--batch-size {min(batches)} is above the {min(per_group)} prompts of a training "
            "step; give a smaller one, or --prompts-per-group more"
        )
    lags = wishes.max_lags or _lags(found.settings.max_lag)
    rounds = wishes.max_rounds or ROUNDS
    values: dict[str, tuple[Any, ...]] = {
        "split": _splits(found, wishes.training_devices),
        "batch_size": batches,
        "slack": wishes.slacks or SLACKS,
        "prompts_per_group": per_group,
        "policy": wishes.policies or get_args(Policy),
        "max_rounds": rounds if min(lags) else tuple(dict.fromkeys((*rounds, 0))),
        "max_lag": lags,
    }
    plain = Setting(**{lever: several[0] for lever, several in values.items()})
    if not wishes.training_devices:
        plain = replace(plain, split=split_of(found))
    if not wishes.batch_sizes:
        plain = replace(plain, batch_size=max(size for size in batches if size <= BATCH_SIZE))
    if not wishes.slacks:
        plain = replace(plain, slack=SLACK)
    if not wishes.max_lags:
        plain = replace(plain, max_lag=found.settings.max_lag)
    ordered = {
        lever: several if lever == "policy" else tuple(sorted(several))
        for lever, several in values.items()
    }
    per_actor = found.cluster.generation[0].devices_per_actor
    capacity = found.settings.queue_capacity
    is_named = bool(wishes.training_devices)
    space = Space(plain, ordered, samples_per_prompt, per_actor, slots, capacity, is_named)
    return replace(space, plain=_fitting(space))


def split_of(found: ClusterFile) -> Split:
    """As the cluster file has it."""
    return Split(found.cluster.num_actors, found.cluster.training.num_devices)


def _fitting(space: Space) -> Setting:
    """The plain setting, with less slack or smaller minibatches where it cannot be run so.

    Where nothing helps it is left, and the simulator says what is wrong.
    """
    plain = space.turned(space.plain, "max_lag", space.plain.max_lag)
    sizes = [size for size in space.values["batch_size"] if size <= plain.batch_size]
    slacks = dict.fromkeys((plain.slack, space.values["slack"][0]))
    choices = (
        replace(plain, batch_size=size, slack=slack) for slack in slacks for size in sizes[::-1]
    )
    return next((setting for setting in choices if space.fits(setting)), plain)


def _lags(largest: int) -> tuple[int, ...]:
    """0, the powers of two below, and the largest."""
    powers = (2**power for power in range(largest.bit_length()))
    return tuple(sorted({0, largest, *powers}))


def _splits(found: ClusterFile, training_devices: Sequence[int]) -> tuple[Split, ...]:
    """Ways to share the devices, whole actors each; few of them, evenly spread."""
    here, units = split_of(found), found.cluster.generation
    per_actor = units[0].devices_per_actor
    total = here.num_actors * per_actor + here.training_devices
    if training_devices:
        for number in training_devices:
            if total - number < per_actor:
                raise AspError(
                    f"{found.name}: has {total} devices, and --training-devices {number} leaves "
                    f"less than the {per_actor} of one actor; give less"
                )
        splits = [Split((total - number) // per_actor, number) for number in training_devices]
    else:
        most = (total - 1) // per_actor
        every = max(1, -(-most // MOST_SPLITS))
        actors = {*range(every, most + 1, every), here.num_actors}
        splits = [Split(number, total - number * per_actor) for number in sorted(actors)]
    if len({unit.speed for unit in units}) > 1:
        if [split for split in splits if split != here] and training_devices:
            raise AspError(
                f"{found.name}: generation.speeds differ, so which actors --training-devices "
                "would turn to training is not known; leave the flag out"
            )
        return (here,)
    return tuple(splits)
