"""Where did every device-second go?

A decode step costs a fixed part, which belongs in equal parts to the slots, and what each sequence
adds, which belongs to its slot. So a step splits without remainder into slots whose response goes
on (useful), slots held by a response that has ended (padding) and empty slots (skew).
"""

from dataclasses import dataclass, fields


@dataclass
class Ledger:
    """Device-seconds by what they were spent on."""

    useful: float = 0.0  # decoding of responses that go on, first prefill of prompts, training
    padding: float = 0.0  # slots held by ended responses until their minibatch ends
    skew: float = 0.0  # empty slots of an actor that decodes
    sorting: float = 0.0  # an actor without work, or training without a complete step
    reload: float = 0.0  # exporting weights, and loading them
    switching: float = 0.0  # devices that change between generation and training
    carry: float = 0.0  # prefilling again what was cut or put down: prompt and tokens
    lost: float = 0.0  # decoding thrown away: lost actors, restarts, time-outs, steps broken off

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self.as_dict().values())

    def as_dict(self) -> dict[str, float]:
        """By name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def shares(self) -> dict[str, float]:
        """Of the total, by name; they sum to 1."""
        return {name: spent / self.total for name, spent in self.as_dict().items()}

    def tenths(self) -> dict[str, int]:
        """Tenths of a percent, by name; rounded so that they sum to 1000: largest remainders up."""
        exact = {name: 1000 * share for name, share in self.shares().items()}
        rounded = {name: int(tenths) for name, tenths in exact.items()}
        by_remainder = sorted(exact, key=lambda name: rounded[name] - exact[name])
        for name in by_remainder[: 1000 - sum(rounded.values())]:
            rounded[name] += 1
        return rounded

    def __add__(self, other: "Ledger") -> "Ledger":
        mine, theirs = self.as_dict(), other.as_dict()
        return Ledger(**{name: mine[name] + theirs[name] for name in mine})
