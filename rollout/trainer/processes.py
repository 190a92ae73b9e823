"""Which processes does Ray run for a run?"""

from functools import partial
from typing import Any

import ray

from rollout.trainer.config import RunConfig
from rollout.trainer.generation_unit import GenerationUnit
from rollout.trainer.judge import Judge
from rollout.trainer.machine import Machine
from rollout.trainer.training_process import TrainingProcess
from stages.tables.errors import log


class Processes:
    """Makes them, as Ray actors, with the resources that the settings say."""

    def __init__(self, machine: Machine, config: RunConfig) -> None:
        self._machine = machine
        self._config = config
        self._warn_of_room()

    def unit(self, number: int) -> Any:
        """A Generation Unit. Orders are taken one after the other, beside the wait for news."""
        remote: Any = ray.remote(
            num_cpus=self._config.unit_cpus,
            num_gpus=self._config.unit_gpus,
            concurrency_groups={"news": 4},
        )(GenerationUnit)
        kind = self._machine.units[number]
        open_engine = partial(self._machine.open_engine, number)
        return remote.remote(open_engine, kind.num_actors, self._machine.is_static)

    def training(self) -> Any:
        """The Training Unit. It does one thing after the other, beside the call that stays."""
        remote: Any = ray.remote(
            num_cpus=0, num_gpus=self._config.trainer_gpus, concurrency_groups={"stay": 1}
        )(TrainingProcess)
        return remote.remote(self._machine.open_trainer)

    def judge(self) -> Any:
        """A judge."""
        scores = self._machine.scores
        assert scores is not None, "somebody asked for rewards"
        remote = ray.remote(Judge).options(num_cpus=0)
        return remote.remote(scores.open_reward, scores.open_decode)

    def _warn_of_room(self) -> None:
        """Say it where not all find a place: Ray waits for more nodes, without a word."""
        num_units = len(self._machine.units)
        there = ray.cluster_resources()
        for kind, reserved in (
            ("CPU", num_units * self._config.unit_cpus),
            ("GPU", num_units * self._config.unit_gpus + self._config.trainer_gpus),
        ):
            if reserved > there.get(kind, 0.0):
                log.warning(
                    "the flags reserve %g %ss and the Ray cluster has %g: what finds no place "
                    "waits until it has more", reserved, kind, there.get(kind, 0.0),
                )  # fmt: skip
