"""Progress in words: speed, time left, and nothing where nothing is asked for."""

import logging
from collections.abc import Iterator
from io import StringIO

import pytest
from rich.console import Console

from stages.profile.progress import Meter, bar, metered


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_speed_and_time_left_count_this_run_only() -> None:
    clock, shown = Clock(), list[str]()
    meter = Meter(100, 60, lambda m: shown.append(m.in_words()), clock)
    clock.now_s = 2.0
    meter.add_tokens(500)
    clock.now_s = 10.0
    meter.add_tokens(500)
    meter.add_responses(20)  # 20 more stay: as long again
    assert shown == ["250 tokens/s", "100 tokens/s", "100 tokens/s, 10 s left"]
    clock.now_s = 600.0
    assert meter.in_words() == "2 tokens/s, 10 min left"


def test_a_terminal_gets_a_bar() -> None:
    terminal, clock = StringIO(), Clock()
    with bar(Console(file=terminal, force_terminal=True, width=80), 50, 10) as show:
        meter = Meter(50, 10, show, clock)
        clock.now_s = 4.0
        meter.add_tokens(800)
        meter.add_responses(20)
    drawn = terminal.getvalue()
    assert "30/50" in drawn
    assert "200 tokens/s, 4 s left" in drawn


@pytest.fixture
def words(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the `asp` logger says, which does not propagate once the command line set it up."""
    asp = logging.getLogger("asp")
    asp.addHandler(caplog.handler)
    yield caplog
    asp.removeHandler(caplog.handler)


def test_without_a_terminal_a_short_run_says_nothing(
    words: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with metered(10, 0) as meter:
        meter.add_tokens(5)
        meter.add_responses(10)
    assert meter.num_done == 10
    assert words.records == []
    assert capsys.readouterr() == ("", "")
