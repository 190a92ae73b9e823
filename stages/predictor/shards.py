"""How are prompts predicted on a Ray cluster?

Ray Data deals the numbers of the batches to workers. Each worker reads its batches from the prompt
file, which all nodes must see, so that prompts pass through no single machine; the lengths come
back in the order of the file. A batch is what it is in one process, and so are its lengths, as far
as the processors compute alike.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from stages.predictor.predict import PredictConfig, load_forecaster
from stages.tables.errors import AspError
from stages.tables.prompt_stream import PromptSource
from stages.workers.ray_cluster import LOCAL, on_ray

BATCH = "batch"  # name of the column of batch numbers


class Worker:
    """A predictor in a process of its own; Ray makes one and sends it batches."""

    def __init__(
        self, prompts: PromptSource, predictor: str, base_model: str | None, config: PredictConfig
    ) -> None:
        from stages.predictor.directory import load_predictor

        self._prompts = prompts
        self._forecast = load_forecaster(load_predictor(predictor, base_model), config)

    def __call__(self, numbers: dict[str, np.ndarray]) -> Any:
        """The lengths of these batches of prompts, as an Arrow table."""
        wanted = sorted(numbers[BATCH].tolist())
        frames = list(map(self._forecast, self._prompts.batches(numbers=wanted)))
        return pl.concat(frames).to_arrow(compat_level=pl.CompatLevel.oldest())


def predict_on_ray(
    address: str,
    prompts: PromptSource,
    predictor: str,
    base_model: str | None,
    config: PredictConfig,
) -> Iterator[pl.DataFrame]:
    """The lengths of the prompts, in their order, a batch each.

    Args:
        address: Of the cluster; `local` starts one on this machine.
        prompts: In a file that every node sees.
        predictor: A directory that every node sees.
        base_model: As `load_predictor` takes it.
        config: How training will sample.

    Raises:
        AspError: Ray is not installed, no cluster is there, or a worker met a user's mistake.
    """
    with _cluster(address) as ray:
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        num_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        # Given as items, the numbers need no tasks to read them, for which no core would be left.
        numbers = ray.data.from_items(
            [{BATCH: n} for n in range(prompts.num_batches)],
            override_num_blocks=prompts.num_batches,
        )
        lengths = numbers.map_batches(
            Worker,
            fn_constructor_args=(prompts, str(Path(predictor).absolute()), base_model, config),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(num_workers, prompts.num_batches)),
        )
        for table in lengths.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield pl.DataFrame(table)


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Ray, connected; of errors in a worker a user's mistake is told as one."""
    try:
        import ray
        import ray.data
    except ImportError:
        raise AspError("--ray needs Ray Data: `pip install 'asp-schedule[ray]'`") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # else it speaks of how it works
    with on_ray(address, f"give `{LOCAL}`"):
        try:
            yield ray
        except ray.exceptions.RayError as error:
            raise (_mistake(error) or error) from None


def _mistake(error: BaseException | None) -> AspError | None:
    """The user's mistake that an error in a worker comes from."""
    while error is not None and not isinstance(error, AspError):
        error = getattr(error, "cause", None) or error.__cause__
    return error
