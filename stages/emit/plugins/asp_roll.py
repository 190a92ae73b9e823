"""ROLL: shuffles prompts unconditionally, so its script is started through this file.

    PYTHONPATH=THIS_DIRECTORY python3 -m asp_roll examples/start_rlvr_pipeline.py ITS_ARGUMENTS

For a single domain: ROLL gives every domain a scheduler, and mixes their prompts in a batch.
"""

import runpy
import sys
from typing import Any

from asp_order import RowOrder
from roll.distributed.scheduler.generate_scheduler import DynamicSamplingScheduler


class PlannedSampling(DynamicSamplingScheduler):
    """ROLL's scheduler, which takes training prompts in the order of the file."""

    def __init__(self, *args: Any, dataset: Any, is_val: bool = False, **options: Any) -> None:
        if not is_val:
            RowOrder().check_length(len(dataset))
        super().__init__(*args, dataset=dataset, is_val=is_val, **options)

    def get_next_dataset_item(self) -> Any:
        """The row after the last one; ROLL's checkpoint counts them."""
        if self.is_val:
            return super().get_next_dataset_item()
        item = self.dataset[self.dataset_iter_count % len(self.dataset)]
        self.dataset_iter_count += 1
        return item


def main() -> None:
    """Run the script with that scheduler in the place of ROLL's."""
    from roll.pipeline.rlvr import rlvr_pipeline

    rlvr_pipeline.DynamicSamplingScheduler = PlannedSampling
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
