"""How many samples are on their way, and may a head start?

    fresh ──dispatch──> in flight ──scored──> queued ──trained on──>
                          │   ▲
                        cut   │ dispatched in a tail
                          ▼   │
                         waiting

The *inventory position* is in flight plus queued. It, and not the occupancy of the queue, is what
pacing by `setpoint` holds: a sample counts from its dispatch, so what was decided shows at once and
the dead time of generation causes no oscillation. Pacing by `watermark` looks at the queue alone.

Places in the Training Queue are reserved from dispatch, and kept for what waits: a head starts only
where position + waiting + its samples fit. docs/control.md derives why the next in line then always
fits into (max_lag + 1) steps and a minibatch.
"""

from collections.abc import Sequence

from rollout.control.settings import ControlSettings
from stages.tables.errors import AspError


class Inventory:
    """Samples by where they are, and the pacing of heads."""

    def __init__(
        self,
        settings: ControlSettings,
        samples_s: Sequence[int],
        largest_minibatch: int,
        num_rounds: int,
    ) -> None:
        """Settle the sizes; see `settle`."""
        self._settings = settings
        self.pacing = settings.pacing
        self._is_paused = False
        self.in_flight = self.queued = self.waiting = 0
        self.settle(samples_s, largest_minibatch, num_rounds)

    def settle(self, samples_s: Sequence[int], largest_minibatch: int, num_rounds: int) -> None:
        """Settle the sizes that the settings leave open.

        Args:
            samples_s: Samples of each step's heads.
            largest_minibatch: Samples of the largest head.
            num_rounds: Rounds through which a response can be carried.

        Raises:
            AspError: The queue is too small for the lag bound; the sizes stay.
        """
        settings = self._settings
        step = max(samples_s)
        # A sample group restarted whole joins a later step even where nothing may be carried.
        reach = max(settings.max_lag, 1 if num_rounds and settings.carry == "restart" else 0)
        needed = (reach + 1) * step + largest_minibatch
        capacity = needed if settings.queue_capacity is None else settings.queue_capacity
        if capacity < needed:
            raise AspError(
                f"queue_capacity is {capacity} samples: with a lag bound of "
                f"{settings.max_lag} it must hold {reach + 1} steps of {step} and a minibatch of "
                f"{largest_minibatch}, {needed} samples; give more, or a smaller max_lag"
            )
        self.capacity = capacity
        whole = (settings.max_lag + 1) * step
        self.set_point = whole if settings.set_point is None else settings.set_point
        if settings.consumption == "completion" and self.set_point < step:
            raise AspError(
                f"set_point is {self.set_point} samples, less than a step of {step}: "
                "consumption in completion order could not fill a step"
            )
        self.high_mark = 2 * step if settings.high_mark is None else settings.high_mark
        self.low_mark = (
            min(step, self.high_mark - 1) if settings.low_mark is None else settings.low_mark
        )

    @property
    def position(self) -> int:
        """Samples in flight or queued."""
        return self.in_flight + self.queued

    def may_start(self, num_samples: int, num_skipped: int, is_awaited: bool) -> bool:
        """Whether a head may start.

        Args:
            num_samples: Of the head.
            num_skipped: Samples of heads before it that wait for their instance; they keep their
                places.
            is_awaited: Whether training waits for its step; then there is nothing to pace.
        """
        taken = self.position + self.waiting + num_skipped
        if taken + num_samples > self.capacity:
            return False
        if is_awaited:
            return True
        if self.pacing == "setpoint":
            return self.position < self.set_point
        return not self._is_paused

    def start(self, num_samples: int) -> None:
        """Fresh samples are dispatched."""
        self.in_flight += num_samples

    def cut(self, num_samples: int) -> None:
        """A sample group leaves its step and gives back its credit."""
        self.in_flight -= num_samples
        self.waiting += num_samples

    def resume(self, num_samples: int) -> None:
        """A sample group that waited is dispatched in a tail."""
        self.waiting -= num_samples
        self.in_flight += num_samples

    def queue(self, num_samples: int) -> None:
        """A complete sample group enters the Training Queue."""
        self.in_flight -= num_samples
        self.queued += num_samples
        self._is_paused = self._is_paused or self.queued >= self.high_mark

    def consume(self, num_samples: int) -> None:
        """Training takes samples."""
        self.queued -= num_samples
        if self.queued <= self.low_mark:
            self._is_paused = False
