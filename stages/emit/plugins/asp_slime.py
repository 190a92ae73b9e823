"""slime: a data source that follows the plan also where prompts are filtered or carried over.

--data-source-path asp_slime.ScheduledDataSource
--rollout-function-path asp_slime.generate_rollout
"""

from typing import Any

from asp_order import RowOrder
from slime.rollout.data_source import RolloutDataSource, RolloutDataSourceWithBuffer
from slime.utils.types import Sample


class ScheduledDataSource(RolloutDataSourceWithBuffer):
    """slime's own buffer and dataset; rows are drawn as planned, and every step is anchored.

    Each sample's `metadata` gets what the plan says of it under `asp`, which slime writes into its
    debug rollout data. A checkpoint holds the buffer too.
    """

    def __init__(self, args: Any) -> None:
        if args.rollout_shuffle:
            raise ValueError("--rollout-shuffle: the schedule would be lost; leave it out")
        super().__init__(args)
        self.order = RowOrder()
        self.order.check_length(len(self.dataset))

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        """What waits in the buffer, then the next rows; after the last row the first again."""
        groups: list[list[Any]] = self._get_samples_from_buffer(num_samples)
        while len(groups) < num_samples:
            rows = self.order.take(num_samples - len(groups))
            if not rows:
                self.epoch_id += 1
                self.order.start()
            groups += [self._group(row) for row in rows]
        return groups

    def _group(self, row: int) -> list[Any]:
        self.sample_offset = row
        group: list[Any]
        (group,) = RolloutDataSource.get_samples(self, 1)
        for sample in group:
            sample.metadata = {**(sample.metadata or {}), "asp": self.order.describe(row)}
        return group

    def save(self, rollout_id: int) -> None:
        """slime's state, and with it the place in the plan and the buffer."""
        self.metadata["asp_order"] = self.order.state_dict()
        self.metadata["asp_buffer"] = [[sample.to_dict() for sample in g] for g in self.buffer]
        super().save(rollout_id)

    def load(self, rollout_id: int | None = None) -> None:
        """Go on from there."""
        super().load(rollout_id)
        if "asp_order" in self.metadata:
            self.order.load_state_dict(self.metadata.pop("asp_order"))
            saved = self.metadata.pop("asp_buffer")
            self.buffer = [[Sample.from_dict(sample) for sample in group] for group in saved]


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """slime's rollout function, told that a training step starts."""
    from slime.rollout import sglang_rollout

    if not evaluation:
        data_source.order.anchor()
    return sglang_rollout.generate_rollout(args, rollout_id, data_source, evaluation)
