"""SkyRL: shuffles prompts unconditionally, so it is started through this file.

    PYTHONPATH=THIS_DIRECTORY python3 -m asp_skyrl OVERRIDES_OF_main_base

A trainer of your own needs `ScheduledLoader` before it among its bases.
"""

import sys
from typing import Any

import ray
from asp_sampler import ScheduledSampler
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray
from torchdata.stateful_dataloader import StatefulDataLoader


class ScheduledLoader:
    """A base that goes before a SkyRL trainer: its own loader, but with the planned order."""

    train_dataloader: Any

    def _build_train_dataloader_and_compute_training_steps(self) -> None:
        super()._build_train_dataloader_and_compute_training_steps()  # type: ignore[misc]
        self.train_dataloader = as_planned(self.train_dataloader)


def as_planned(loader: Any) -> Any:
    """The same loader, which draws the rows of its dataset in the planned order."""
    return StatefulDataLoader(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=ScheduledSampler(loader.dataset),
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        persistent_workers=loader.persistent_workers,
        drop_last=loader.drop_last,
        multiprocessing_context=loader.multiprocessing_context,
    )


class ScheduledTrainer(ScheduledLoader, RayPPOTrainer):
    """SkyRL's synchronous trainer on planned batches."""


class ScheduledExp(BasePPOExp):
    """SkyRL's experiment with that trainer."""

    def get_trainer(self, *args: Any, **options: Any) -> Any:
        """The trainer of this experiment."""
        return ScheduledTrainer(*args, **options)


@ray.remote(num_cpus=1)
def _run(cfg: Any) -> None:
    ScheduledExp(cfg).run()


def main() -> None:
    """What SkyRL's own entry point does, with that experiment."""
    cfg = SkyRLTrainConfig.from_cli_overrides(sys.argv[1:])
    validate_cfg(cfg)
    initialize_ray(cfg)
    ray.get(_run.remote(cfg))


if __name__ == "__main__":
    main()
