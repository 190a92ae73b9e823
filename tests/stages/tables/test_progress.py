"""Progress in words, without a terminal: now and then, with the time left where it is known."""

import pytest

from stages.tables.progress import LINE_EVERY_S, _lines, duration


@pytest.mark.parametrize(
    ("total", "words"),
    [
        (100, ["states: 70 of 100, 2 min left", "states: 80 of 100, 60 s left"]),
        (None, ["states: 70", "states: 80", "states: 100"]),
    ],
)
def test_a_line_now_and_then(said: list[str], total: int | None, words: list[str]) -> None:
    """Ten pieces in 30 s, ten more in the next 30 s; that all is done is not told."""
    times_s = iter([0.0, LINE_EVERY_S - 1, LINE_EVERY_S, 2 * LINE_EVERY_S, 4 * LINE_EVERY_S])
    advance = _lines("states", total, 60, clock=lambda: next(times_s))
    for number in (0, 10, 10, 20):
        advance(number)
    assert said == words


def test_duration() -> None:
    assert [duration(seconds) for seconds in (45, 720, 5400)] == ["45 s", "12 min", "1.5 h"]
