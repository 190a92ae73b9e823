"""How does the Control Unit pace, refresh and carry?"""

from dataclasses import dataclass
from typing import Literal

from stages.tables.errors import AspError

Pacing = Literal["setpoint", "watermark"]
Refresh = Literal["unload", "finish", "rolling"]
Carry = Literal["tokens", "restart"]
Consumption = Literal["dispatch", "completion"]


@dataclass(frozen=True)
class ControlSettings:
    """All sizes in samples, all lags in training steps."""

    max_lag: int = 4  # hard under consumption in dispatch order, else it sets the credits
    queue_capacity: int | None = None  # of the Training Queue; None: what the lag bound needs
    pacing: Pacing = "setpoint"
    set_point: int | None = None  # samples in flight or queued; None: see `inventory`
    high_mark: int | None = None  # watermark: queued samples that stop dispatch; None: two steps
    low_mark: int | None = None  # watermark: queued samples that start it again; None: one step
    refresh: Refresh = "unload"
    max_reloading: int | None = None  # actors at a time; None: 1 when rolling, else all but one
    carry: Carry = "tokens"  # what a response cut at its budget does
    consumption: Consumption = "dispatch"  # order in which samples are trained on

    def __post_init__(self) -> None:
        for name, least in (
            ("max_lag", 0), ("set_point", 1), ("high_mark", 1), ("low_mark", 0),
            ("max_reloading", 1),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < least:
                raise AspError(f"{name} is {value}: it must be at least {least}")
        if None not in (self.low_mark, self.high_mark) and self.low_mark >= self.high_mark:  # type: ignore[operator]
            raise AspError(
                f"low_mark is {self.low_mark}, high_mark {self.high_mark}: low must be below high"
            )
