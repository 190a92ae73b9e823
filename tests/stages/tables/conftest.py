"""What the toolchain says while a test runs."""

import logging
from collections.abc import Iterator

import pytest


class Words(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What the `asp` logger says; it may propagate or not."""
    handler, asp = Words(), logging.getLogger("asp")
    level = asp.level
    asp.setLevel(logging.INFO)
    asp.addHandler(handler)
    yield handler.said
    asp.removeHandler(handler)
    asp.setLevel(level)
