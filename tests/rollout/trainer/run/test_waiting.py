"""What is said of a process that is lost: by Ray's own errors, of processes that are."""

import os

import pytest

from rollout.trainer.waiting import why_lost
from stages.tables.errors import AspError


class Doomed:
    """Raises, or ends, as it starts or when it is asked."""

    def __init__(self, error: Exception | None) -> None:
        if error is not None:
            raise error

    def process(self) -> None:
        os._exit(1)


def loss_of(error: Exception | None) -> Exception:
    import ray

    with pytest.raises(ray.exceptions.RayActorError) as caught:
        ray.get(ray.remote(Doomed).options(num_cpus=0).remote(error).process.remote())
    return caught.value


def test_of_a_process_that_could_not_start_what_was_raised_is_said(ray_address: str) -> None:
    """Not where, nor what a library adds below it."""
    told = "CUDA error: device is busy\nFor debugging consider\n\n    CUDA_LAUNCH_BLOCKING=1\n"
    assert why_lost(loss_of(RuntimeError(told))) == "RuntimeError: CUDA error: device is busy"
    with pytest.raises(AspError, match=r"^--model m: cannot be loaded as a language model: cut$"):
        why_lost(loss_of(AspError("--model m: cannot be loaded as a language model: cut")))


def test_of_a_process_that_ended_what_ray_says_first_is_said(ray_address: str) -> None:
    assert why_lost(loss_of(None)).startswith("The actor died unexpectedly")
