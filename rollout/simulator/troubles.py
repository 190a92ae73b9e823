"""What goes wrong in a run?

Time-outs: a response that never ends, and a reward that never comes. Disturbances: an actor or a
unit that is lost, lengths that change. Chance has its place in `truth`, which draws what never
comes; what is here is certain.

    [timeouts]
    response_seconds = 600   # from the dispatch of its minibatch
    response_chance = 1e-4

    [[disturbances]]
    time_s = 3600
    lose_unit = 1
    until_s = 5400
"""

from dataclasses import dataclass

from rollout.simulator.keys import Keys
from stages.tables.errors import AspError

LARGEST_FACTOR = 100.0  # of lengths


@dataclass(frozen=True)
class TimeOuts:
    """How long is waited, and how often in vain."""

    response_seconds: float | None = None  # from its minibatch's first dispatch; None: for ever
    response_chance: float = 0.0  # that a response never ends
    reward_seconds: float | None = None  # from the question; None: for ever
    reward_chance: float = 0.0  # that the reward of a sample group never comes

    def __post_init__(self) -> None:
        for name in ("response", "reward"):
            chance = getattr(self, f"{name}_chance")
            if not 0 <= chance <= 1:
                raise AspError(f"{name}_chance is {chance}: it must be from 0 to 1")
            if chance and getattr(self, f"{name}_seconds") is None:
                raise AspError(
                    f"{name}_chance is {chance:g} without a time-out, so a step would wait for "
                    f"ever; give {name}_seconds"
                )


FOR_EVER = TimeOuts()
"""No time-out, and nothing that would need one."""


@dataclass(frozen=True)
class Outage:
    """An actor that is lost; `until_s` brings a new one in its place, with the weights of then."""

    time_s: float
    actor: int
    until_s: float | None = None


@dataclass(frozen=True)
class UnitOutage:
    """All actors that a generation unit has then are lost; `until_s` brings as many new ones."""

    time_s: float
    unit: int
    until_s: float | None = None


@dataclass(frozen=True)
class Drift:
    """Responses of prompts that were not dispatched by then are so many times as long."""

    time_s: float
    factor: float


Disturbance = Outage | UnitOutage | Drift


def time_outs(table: Keys) -> TimeOuts:
    """Of the table [timeouts]; a time left out or 0 is none."""
    given = {
        "response_seconds": table.seconds("response_seconds", 0.0) or None,
        "response_chance": table.number("response_chance", 0.0, 1.0, 0.0),
        "reward_seconds": table.seconds("reward_seconds", 0.0) or None,
        "reward_chance": table.number("reward_chance", 0.0, 1.0, 0.0),
    }
    try:
        return TimeOuts(**given)
    except AspError as error:
        raise AspError(f"{table.source}: [{table.name('')[:-1]}]: {error}") from None


def disturbances(tables: list[Keys], num_units: int) -> tuple[Disturbance, ...]:
    """Of the list [[disturbances]]."""
    return tuple(_disturbance(table, num_units) for table in tables)


def _disturbance(table: Keys, num_units: int) -> Disturbance:
    time_s = table.seconds("time_s")
    factor = table.number("lengths_factor", 1 / LARGEST_FACTOR, LARGEST_FACTOR, None)
    unit = table.whole("lose_unit", 0, None)
    if (factor is None) == (unit is None):
        table.refuse("lose_unit", unit, "one of lose_unit and lengths_factor")
    found: Disturbance
    if factor is not None:
        found = Drift(time_s, factor)
    else:
        if unit >= num_units:
            table.refuse("lose_unit", unit, f"a unit, from 0 to {num_units - 1}")
        until_s = table.seconds("until_s", 0.0) or None
        if until_s is not None and until_s <= time_s:
            table.refuse("until_s", until_s, f"a time after time_s, {time_s:g}")
        found = UnitOutage(time_s, unit, until_s)
    table.finish()
    return found
