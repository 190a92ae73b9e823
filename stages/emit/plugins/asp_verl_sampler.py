"""verl up to 0.7: a sampler for `data.sampler.class_path`, which later versions don't have.

data.sampler.class_path=THIS_DIRECTORY/asp_verl_sampler.py
data.sampler.class_name=VerlSampler data.dataloader_num_workers=0
"""

from collections.abc import Sized
from typing import Any

from asp_sampler import ScheduledSampler
from verl.experimental.dataset.sampler import AbstractCurriculumSampler


class VerlSampler(ScheduledSampler, AbstractCurriculumSampler):
    """Rows as planned, anchored at every training step."""

    def __init__(self, data_source: Sized, data_config: Any) -> None:
        ScheduledSampler.__init__(self, data_source)

    def update(self, batch: Any) -> None:
        """What verl calls at the end of a training step."""
        self.anchor()
