"""Every second is laid to one entry of the ledger or divided between several."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.trainer.samples import Draft
from rollout.trainer.stopwatch import MOST_STEPS, Stopwatch


def test_a_decode_is_divided_by_slots() -> None:
    stopwatch = Stopwatch(4)
    time.sleep(0.001)
    stopwatch.decoded([4, 2, 0], num_empty=1)  # 16 slot-steps: 6 make tokens, 4 are of no response
    shares = stopwatch.spent.shares()
    assert abs(shares["useful"] - 6 / 16) < 1e-9 and abs(shares["skew"] - 4 / 16) < 1e-9
    assert abs(shares["padding"] - 6 / 16) < 1e-9 and stopwatch.num_tokens == 6


def test_a_prefill_is_divided_by_tokens() -> None:
    stopwatch = Stopwatch(2)
    time.sleep(0.001)
    stopwatch.prefilled([Draft(0, 0, (1, 2, 3), 9), Draft(0, 1, (1, 2, 3), 9, [5, 6])])
    shares = stopwatch.spent.shares()
    assert abs(shares["carry"] - 5 / 8) < 1e-9 and abs(shares["useful"] - 3 / 8) < 1e-9


CALLS = ("wait", "load", "prefill", "decode")


@settings(max_examples=50)
@given(st.lists(st.sampled_from(CALLS), max_size=12))
def test_no_second_is_lost_or_counted_twice(calls: list[str]) -> None:
    before_s = time.monotonic()
    stopwatch = Stopwatch(2)
    begun_s = time.monotonic()
    for call in calls:
        match call:
            case "wait":
                stopwatch.waited()
            case "load":
                stopwatch.loaded()
            case "prefill":
                stopwatch.prefilled([Draft(0, 0, (1,), 9)])
            case "decode":
                stopwatch.decoded([1], num_empty=1)
    last_s = time.monotonic()
    total = stopwatch.spent.total + stopwatch.lap()
    assert last_s - begun_s <= total + 1e-9 and total - 1e-9 <= time.monotonic() - before_s
    assert 1 <= stopwatch.steps_per_pulse <= MOST_STEPS
    stopwatch.begin()
    assert stopwatch.spent.total == stopwatch.num_tokens == 0
