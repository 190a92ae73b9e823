"""What is shown while a run goes on."""

import pytest

from rollout.trainer.exchange import State
from rollout.trainer.live import Watch, histogram


@pytest.mark.parametrize(
    ("lags", "shown"),
    [([], "none yet"), ([2], "2 █ 2"), ([0] * 4 + [1] * 8 + [3], "0 ▄█ ▁ 3")],
)
def test_a_bar_a_lag(lags: list[int], shown: str) -> None:
    assert histogram(lags) == shown


def test_tokens_of_actors_that_are_gone_count_on() -> None:
    watch = Watch()
    assert watch.tokens([{0: State(num_tokens=5)}, {1: State(num_tokens=7)}]) == 12
    assert watch.tokens([{0: State(num_tokens=6)}, {2: State(num_tokens=1)}]) == 14
