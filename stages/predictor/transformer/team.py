"""Which share of the work is this process's, and how do the processes agree?

One process, or the several that `accelerate launch` or torchrun starts, one a GPU. Each does its
share of the passes; gradients are averaged, so all hold the same model. The first one speaks, and
writes the output. Run with two processes on a CPU; on several GPUs not yet.
"""

import logging
from typing import Any, Protocol

import torch

from stages.predictor.processes import is_first_process, num_processes
from stages.tables.errors import AspError, log


class Team(Protocol):
    """The processes that train together."""

    rank: int  # of this one, from 0
    size: int

    def average(self, tensor: torch.Tensor) -> torch.Tensor:
        """The mean over the processes."""
        ...

    def wait(self) -> None:
        """Until every process is here."""
        ...


class Alone:
    """One process."""

    rank, size = 0, 1

    def average(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself."""
        return tensor

    def wait(self) -> None:
        """Nobody to wait for."""


class Launched:
    """One of several, as started by `accelerate launch`."""

    def __init__(self) -> None:
        try:
            from accelerate import Accelerator
        except ImportError:
            raise AspError(
                "several processes need accelerate: `pip install 'asp-schedule[transformer]'`"
            ) from None
        self._accelerator: Any = Accelerator()
        self.rank = int(self._accelerator.process_index)
        self.size = int(self._accelerator.num_processes)

    def average(self, tensor: torch.Tensor) -> torch.Tensor:
        """The mean over the processes, the same in each."""
        averaged: torch.Tensor = self._accelerator.reduce(tensor, "mean")
        return averaged

    def wait(self) -> None:
        """A barrier."""
        self._accelerator.wait_for_everyone()


def join_team() -> Team:
    """The team of this process."""
    if num_processes() == 1:
        return Alone()
    if not is_first_process():
        log.setLevel(logging.ERROR)
    return Launched()
