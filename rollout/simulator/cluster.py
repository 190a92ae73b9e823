"""What generates, what trains, and what does each cost?"""

from dataclasses import dataclass, field
from typing import Literal

from rollout.simulator.troubles import FOR_EVER, TimeOuts
from stages.costs.model import CostModel
from stages.tables.errors import AspError

Engine = Literal["static", "continuous"]


@dataclass(frozen=True)
class GenerationUnit:
    """Actors that share a node, or a kind of device."""

    num_actors: int = 1
    devices_per_actor: int = 1
    slots: int = 32  # responses that an actor decodes at once
    speed: float = 1.0  # of the cost model's; 2 halves every time, reloading left out

    def __post_init__(self) -> None:
        for name in ("num_actors", "devices_per_actor", "slots", "speed"):
            if getattr(self, name) <= 0:
                raise AspError(f"generation unit: {name} is {getattr(self, name)}, not above 0")


@dataclass(frozen=True)
class TrainingUnit:
    """Devices that train together."""

    num_devices: int = 1
    token_device_seconds: float = 0.0  # one token of prompt or response, on one device
    step_seconds: float = 0.0  # fixed part of a training step
    export_seconds: float = 0.0  # after a step, before the next: a snapshot of the weights
    publication_seconds: float = 0.0  # then, beside training: conversion and transfer

    def train_seconds(self, tokens: int, num_devices: int) -> float:
        """A training step."""
        return self.step_seconds + self.token_device_seconds * tokens / num_devices


@dataclass(frozen=True)
class Cluster:
    """Generation units, a training unit, and what decoding costs.

    Actors are numbered on through the units. Colocated: the training unit has no devices of its
    own; generation and training take turns on those of the actors.
    """

    generation: tuple[GenerationUnit, ...]
    training: TrainingUnit = TrainingUnit()
    cost_model: CostModel = field(default_factory=CostModel)
    engine: Engine = "continuous"
    reload_seconds: float = 0.0  # an actor loads published weights
    reward_seconds: float = 0.0  # from complete sample groups to their rewards
    is_colocated: bool = False
    switching_seconds: float = 0.0  # each way, colocated
    timeouts: TimeOuts = FOR_EVER

    @property
    def num_actors(self) -> int:
        """Of all units."""
        return sum(unit.num_actors for unit in self.generation)
