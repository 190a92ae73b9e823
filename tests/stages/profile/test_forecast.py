"""What a profile will cost: by hand, what must hold, how often it does; the budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.profile.allowance import Allowance
from stages.profile.engine import Answer, Request
from stages.profile.forecast import Outlook, Range, in_words, total_tokens

lengths = st.lists(st.integers(0, 500), min_size=1, max_size=40)


@given(lengths, st.lists(st.integers(1, 8), min_size=1, max_size=20), st.integers(0, 3))
def test_the_range_holds_the_mean_and_stays_below_the_cap(
    lengths: list[int], samples: list[int], seed: int
) -> None:
    total = total_tokens(lengths, 500, samples, seed)
    assert total.expected == pytest.approx(sum(samples) * np.mean(lengths))
    assert 0 <= total.low <= total.high <= sum(samples) * 500
    assert total == total_tokens(lengths, 500, samples, seed)


def test_equal_lengths_leave_the_tail_open() -> None:
    """32 of 10 tokens and one unseen at 1,000, whose weight is Beta(1, 32): 95% of it is 0.0894."""
    total = total_tokens([10] * 32, 1000, [1] * 10_000, 0)
    assert (total.expected, total.low) == (100_000, pytest.approx(100_000))
    assert total.high == pytest.approx(10_000 * (10 + 990 * 0.0894), rel=0.05)


def test_true_costs_seldom_lie_above_even_with_a_heavy_tail() -> None:
    """One response in 50 runs to a cap 100 times as long as the others."""
    rng = np.random.default_rng(0)
    num_above = num_below = 0
    for seed in range(100):
        drawn = np.where(rng.random(532) < 0.02, 10_000, rng.integers(50, 150, 532))
        total = total_tokens(drawn[:32].tolist(), 10_000, [1] * 500, seed)
        num_above += drawn[32:].sum() > total.high
        num_below += drawn[32:].sum() < total.low
    assert num_above <= 10  # 5% of 100, and more than twice the deviation
    assert num_below <= 10


def test_the_words() -> None:
    total = Range(120_000, 90_000, 240_000)
    assert in_words(total, 960, 32, 1000, None) == (
        "told from the first 32 responses: 960 responses take 120,000 (90,000 to 240,000) tokens; "
        "at 1,000 tokens/s 2 min (2 min to 4 min)"
    )
    assert in_words(total, 960, 32, 0, 100_000) == (
        "told from the first 32 responses: 960 responses take 120,000 (90,000 to 240,000) tokens; "
        "--max-profile-tokens 100,000 allows 400 to 960 of them"
    )
    assert "allows" not in in_words(total, 960, 32, 0, 240_000)


def test_it_is_said_once_when_all_first_ones_are_there_whatever_their_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = [Request(n, "", 0) for n in range(3)]
    said = []
    for order in (first, first[::-1]):
        outlook = Outlook(first, [1, 1, 8], 50, 0)
        outlook.look(Request(0, "", 1), Answer(50, "length"))  # not one of the first
        caplog.clear()
        with caplog.at_level("INFO", logger="asp"):
            for request in order:
                outlook.tell(0, None)
                assert not caplog.records
                outlook.look(request, Answer(10 * request.prompt_id, "stop"))
            outlook.tell(0, None)
            outlook.tell(0, None)
        assert len(caplog.records) == 1
        said.append(caplog.records[0].getMessage())
    assert said[0] == said[1]
    assert said[0].startswith("told from the first 3 responses: 10 responses take 100 (")


def test_what_is_left_out_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    first = [Request(n, "", 0) for n in range(3)]
    outlook = Outlook(first, [8] * 3, 50, 0)
    with caplog.at_level("INFO", logger="asp"):
        for request in first:
            outlook.tell(0, None)
            assert not caplog.records
            is_made = request.prompt_id != 1
            outlook.look(request, Answer(9 + request.prompt_id, "stop") if is_made else None)
        outlook.tell(0, None)
    assert "told from the first 2 responses: 24 responses take 240 (" in caplog.text


def test_no_more_than_came_is_waited_for_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """A budget may be spent before the last of the first ones is asked for."""
    outlook = Outlook([Request(n, "", 0) for n in range(3)], [8] * 3, 50, 0)
    outlook.look(Request(0, "", 0), Answer(10, "stop"))
    with caplog.at_level("INFO", logger="asp"):
        outlook.tell(0, None)
        assert not caplog.records
        outlook.tell(0, None, is_over=True)
        outlook.tell(0, None, is_over=True)
    [record] = caplog.records
    assert "told from the first 1 responses: 24 responses take 240 (" in record.getMessage()


def test_nothing_is_said_where_nothing_is_to_come(caplog: pytest.LogCaptureFixture) -> None:
    outlook = Outlook([Request(0, "", 0)], [1], 50, 0)
    outlook.look(Request(0, "", 0), Answer(10, "stop"))
    with caplog.at_level("INFO", logger="asp"):
        outlook.tell(1, None)
    assert not caplog.records


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 100) | st.none())
def test_an_allowance_is_overrun_by_no_more_than_the_work_handed_out(
    costs: list[int], max_tokens: int | None
) -> None:
    allowance, done = Allowance(max_tokens), []
    for cost in allowance.until_spent(costs):
        allowance.spend(cost)
        done.append(cost)
    assert done == costs[: len(done)]
    if len(done) < len(costs):
        assert max_tokens is not None and sum(done) >= max_tokens
    if max_tokens is not None and done:
        assert sum(done[:-1]) < max_tokens
