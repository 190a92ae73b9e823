"""A torch sampler that draws the rows of this directory's data file as planned.

    sampler = ScheduledSampler(dataset)
    loader = StatefulDataLoader(dataset, batch_size=P, sampler=sampler, drop_last=True)

For any loop over a torch DataLoader whose dataset is the data file, row for row.
"""

from collections.abc import Iterator, Sized
from typing import Any

from asp_order import RowOrder
from torch.utils.data import Sampler


class ScheduledSampler(Sampler[int]):
    """Row numbers in order. A pass is the whole file, or after `set_epoch` that epoch of the plan.

    `anchor` may be called where a training step starts, if the loader has no workers: see
    `asp_order.RowOrder`.
    """

    def __init__(self, data_source: Sized) -> None:
        self.order = RowOrder()
        self.order.check_length(len(data_source))
        self._epoch: int | None = None
        self._is_resumed = False

    def __len__(self) -> int:
        return self.order.rows_of_pass(self._epoch)

    def __iter__(self) -> Iterator[int]:
        if not self._is_resumed:
            self.order.start(self._epoch)
        self._is_resumed = False
        while rows := self.order.take(1):
            yield rows[0]

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass that epoch of the plan; it starts over after the last one."""
        self._epoch = epoch

    def anchor(self) -> None:
        """A training step starts."""
        self.order.anchor()

    def state_dict(self) -> dict[str, Any]:
        """Where the pass stands."""
        return self.order.state_dict() | {"epoch": self._epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there at the next `iter`."""
        self.order.load_state_dict(state)
        self._epoch = state["epoch"]
        self._is_resumed = True
