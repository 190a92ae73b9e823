"""OpenRLHF: shuffles prompts unconditionally, so it is started through this file.

    PYTHONPATH=THIS_DIRECTORY python3 -m asp_openrlhf ARGUMENTS_OF_train_ppo_ray

OpenRLHF asks its strategy for loaders, from whichever process. The strategy made here is its own,
except that the loader of the prompts that it would shuffle gets a sampler.
"""

import runpy
from typing import Any

import openrlhf.utils
from asp_sampler import ScheduledSampler
from openrlhf.datasets import PromptDataset
from openrlhf.utils.deepspeed import DeepspeedStrategy


class ScheduledStrategy(DeepspeedStrategy):
    """Training prompts as planned; all else as it was."""

    def setup_dataloader(
        self,
        replay_buffer: Any,
        batch_size: int,
        pin_memory: bool = False,
        shuffle: bool = True,
        *more: Any,
        **options: Any,
    ) -> Any:
        """OpenRLHF's loader; that of training prompts with the planned order."""
        if shuffle and isinstance(replay_buffer, PromptDataset):
            options["sampler"] = ScheduledSampler(replay_buffer)
        return super().setup_dataloader(
            replay_buffer, batch_size, pin_memory, shuffle, *more, **options
        )


def main() -> None:
    """Run OpenRLHF's command with that strategy."""
    get_strategy = openrlhf.utils.get_strategy

    def get_scheduled(args: Any) -> Any:
        strategy = get_strategy(args)
        strategy.__class__ = ScheduledStrategy
        return strategy

    openrlhf.utils.get_strategy = get_scheduled
    runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")


if __name__ == "__main__":
    main()
