"""How do generation and training share the devices?

asp     apart; steps consume in dispatch order, under the hard lag bound
async   apart; a step consumes what is complete first; max_lag + 1 steps may run ahead
hybrid  all devices generate, then all train, in turn; lag 0
"""

from dataclasses import replace
from typing import Literal

from rollout.control.plan import Plan
from rollout.control.settings import ControlSettings
from rollout.simulator.cluster import Cluster, GenerationUnit

Mode = Literal["asp", "async", "hybrid"]


def in_mode(
    mode: Mode, plan: Plan, cluster: Cluster, settings: ControlSettings
) -> tuple[Plan, Cluster, ControlSettings]:
    """The same prompts on the same devices; only `asp` carries what was cut at a budget."""
    if mode == "asp":
        return plan, cluster, settings
    plan = plan.without_budgets()
    if mode == "async":
        return plan, cluster, replace(settings, consumption="completion")
    # Weights change hands while the devices switch, so publishing them takes no time of its own.
    training = replace(cluster.training, export_seconds=0.0, publication_seconds=0.0)
    units = cluster.generation + _actors_of(cluster.training.num_devices, cluster.generation[0])
    return (
        plan,
        replace(cluster, generation=units, training=training, is_colocated=True),
        replace(settings, max_lag=0, queue_capacity=None),
    )


def _actors_of(num_devices: int, like: GenerationUnit) -> tuple[GenerationUnit, ...]:
    """The devices of training as actors; those left over make a slower one, in proportion."""
    whole, rest = divmod(num_devices, like.devices_per_actor)
    units = [replace(like, num_actors=whole)] if whole else []
    if rest:
        speed = like.speed * rest / like.devices_per_actor
        units.append(replace(like, num_actors=1, devices_per_actor=rest, speed=speed))
    return tuple(units)
