"""What does the driver ask of the Training Unit?

`training_unit.py` trains a model, `timed.py` takes the time that training would; whatever fits the
protocol can take their place. It runs in a process of its own, and knows neither queue nor clock.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rollout.trainer.samples import SampleGroup
from rollout.trainer.snapshots import Snapshots

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Trainer(Protocol):
    """Weights, and what is needed to train them further."""

    @property
    def version(self) -> int:
        """Training steps made."""

    def train(self, groups: Sequence[SampleGroup]) -> "DataclassInstance":
        """One step, which makes the next version; numbers that it measured, by name."""

    def publish(self, snapshots: Snapshots) -> None:
        """Write the weights as the snapshot of their version.

        Raises:
            AspError: They can't be written, for want of room for instance; nothing is left.
        """

    def save(self, path: Path) -> None:
        """Write everything as a sealed directory: weights, optimiser, version, random state.

        Raises:
            AspError: As `publish`.
        """

    def load(self, path: Path) -> None:
        """Go on from what `save` wrote.

        Raises:
            AspError: It is damaged.
        """
