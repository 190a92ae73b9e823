"""What does a table of the cluster file hold under its keys?

Every key is taken once, and none may be left over; a value that cannot be meant is refused in one
line that names the file, the key, the value, and what is wanted.
"""

import json
from collections.abc import Sequence
from typing import Any

from stages.costs.file import LARGEST_SECONDS
from stages.tables.errors import AspError, shorten

LARGEST_RATE = 1e12  # tokens a second
LARGEST_NUMBER = 10**6  # actors and devices, and what a count of them is multiplied with


class Keys:
    """One table of the file."""

    def __init__(self, source: str, table: str, values: dict[str, Any]) -> None:
        self.source = source
        self._table = table
        self._values = dict(values)
        self._known: list[str] = []

    def take(self, key: str, wanted: str, default: Any = ...) -> Any:
        """The value of a key; its default, or a refusal, where it is absent."""
        self._known.append(key)
        if key not in self._values and default is ...:
            raise AspError(f"{self.source}: {self.name(key)} is missing; give {wanted}")
        return self._values.pop(key, default)

    def whole(self, key: str, least: int, default: Any = ...) -> Any:
        """A whole number."""
        wanted = f"a whole number from {least} to {LARGEST_NUMBER}"
        value = self.take(key, wanted, default)
        is_whole = type(value) is int and least <= value <= LARGEST_NUMBER
        return value if is_whole or value is default else self.refuse(key, value, wanted)

    def seconds(self, key: str, default: Any = ...) -> float:
        """A number of seconds."""
        wanted = f"seconds, a number from 0 to {LARGEST_SECONDS:g}"
        value = self.take(key, wanted, default)
        if not (is_number(value) and 0 <= value <= LARGEST_SECONDS):
            self.refuse(key, value, wanted)
        return float(value)

    def rate(self, key: str, default: Any = ...) -> float:
        """Of things a second."""
        wanted = f"a number from {1 / LARGEST_SECONDS:g} to {LARGEST_RATE:g}"
        value = self.take(key, wanted, default)
        if not (is_number(value) and 1 / LARGEST_SECONDS <= value <= LARGEST_RATE):
            self.refuse(key, value, wanted)
        return float(value)

    def number(self, key: str, least: float, most: float, default: Any = ...) -> Any:
        """A number."""
        wanted = f"a number from {least:g} to {most:g}"
        value = self.take(key, wanted, default)
        if value is default:
            return value
        if not (is_number(value) and least <= value <= most):
            self.refuse(key, value, wanted)
        return float(value)

    def choice(self, key: str, values: Sequence[str], default: Any = ...) -> Any:
        """One of a few words."""
        wanted = f"one of {', '.join(values)}"
        value = self.take(key, wanted, default)
        return value if value in values or value is default else self.refuse(key, value, wanted)

    def table(self, key: str, is_needed: bool = True) -> "Keys":
        """The table under a key."""
        wanted = f"a table, [{self.name(key)}]"
        values = self.take(key, wanted, ... if is_needed else {})
        if not isinstance(values, dict):
            self.refuse(key, values, wanted)
        return Keys(self.source, self.name(key), values)

    def tables(self, key: str) -> list["Keys"]:
        """The list of tables under a key; none where it is absent."""
        wanted = f"a list of tables, each [[{self.name(key)}]]"
        values = self.take(key, wanted, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            self.refuse(key, values, wanted)
        name = self.name(key)
        return [Keys(self.source, f"{name}[{at}]", value) for at, value in enumerate(values)]

    def finish(self) -> None:
        """Refuse what was not taken."""
        for key in self._values:
            raise AspError(
                f"{self.source}: {self.name(shorten(key, 40))} is unknown; "
                f"{f'[{self._table}]' if self._table else 'the top'} has {', '.join(self._known)}"
            )

    def has(self, key: str) -> bool:
        """Whether the table has a key that was not taken yet."""
        return key in self._values

    def name(self, key: str) -> str:
        """`table.key`."""
        return f"{self._table}.{key}" if self._table else key

    def refuse(self, key: str, value: object, wanted: str) -> Any:
        """Say what was met in place of what."""
        met = shorten(json.dumps(value, default=str), 40)
        raise AspError(f"{self.source}: {self.name(key)} is {met}; give {wanted}")


def is_number(value: object) -> bool:
    """Whether a value of the file is a number, which TOML's truth values are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
