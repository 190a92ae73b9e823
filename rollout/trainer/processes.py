"""Which processes does Ray run for a run?"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import ray

from rollout.trainer.config import RunConfig
from rollout.trainer.generation_unit import GenerationUnit
from rollout.trainer.judge import Judge
from rollout.trainer.machine import Machine
from rollout.trainer.training_process import TrainingProcess
from stages.tables.errors import AspError


class Processes:
    """Makes them, as Ray actors, with the resources that the settings say."""

    def __init__(self, machine: Machine, config: RunConfig) -> None:
        self._machine = machine
        self._config = config

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
        """The Training Unit."""
        remote = ray.remote(TrainingProcess).options(num_cpus=0, num_gpus=self._config.trainer_gpus)
        return remote.remote(self._machine.open_trainer)

    def judge(self) -> Any:
        """A judge."""
        scores = self._machine.scores
        assert scores is not None, "somebody asked for rewards"
        remote = ray.remote(Judge).options(num_cpus=0)
        return remote.remote(scores.open_reward, scores.open_decode)


@contextmanager
def on_ray(address: str | None) -> Iterator[None]:
    """Join a Ray cluster, or have one on this machine for as long as the block lasts.

    Where this process is connected already, it stays so.

    Raises:
        AspError: There is no cluster at the address.
    """
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(
            address=address or "local", include_dashboard=None if address else False,
            log_to_driver=False, logging_level=logging.ERROR,
        )  # fmt: skip
    except Exception as error:  # Ray raises a bare one where it takes too long
        if address is None:
            raise AspError(f"Ray cannot be started on this machine: {error}") from None
        raise AspError(
            f"--ray {address}: no Ray cluster answers there: {error}; start one with `ray start "
            "--head`, or leave --ray out"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()
