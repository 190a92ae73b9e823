"""How is a pickle read that may be anybody's? As data: nothing it names is imported or called.

A pickle is a program that can call any function by its name. Here each name stands for something of
our own, given by the reader, and every other one is refused.
"""

import io
import pickle
from collections.abc import Mapping
from typing import Any

from stages.tables.errors import AspError


class Ignored:
    """What stands for a value that is not needed."""

    def __init__(self, *arguments: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def read_pickle(name: str, data: bytes, known: Mapping[tuple[str, str], Any]) -> Any:
    """The content of a pickle.

    Args:
        name: The file, for messages.
        data: Its bytes.
        known: What stands for each (module, name) that it may mention.

    Raises:
        AspError: It mentions another one, or is no pickle.
    """
    try:
        return _Reader(data, known, name).load()
    except AspError:
        raise
    except Exception as error:  # a damaged one raises whatever its opcodes stumble on
        raise AspError(f"{name}: is not a pickle that can be read: {error}") from None


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, known: Mapping[tuple[str, str], Any], name: str) -> None:
        super().__init__(io.BytesIO(data))
        self._known = known
        self._name = name

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self._known:
            return self._known[module, name]
        raise AspError(
            f"{self._name}: the pickle names {module}.{name}, which a log of this kind has no use "
            "for; it is refused, since a pickle can run code: is --from right, and the file yours?"
        )
