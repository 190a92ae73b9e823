"""What is shown while a run goes on."""

import pytest

from rollout.trainer.live import histogram


@pytest.mark.parametrize(
    ("lags", "shown"),
    [([], "none yet"), ([2], "2 █ 2"), ([0] * 4 + [1] * 8 + [3], "0 ▄█ ▁ 3")],
)
def test_a_bar_a_lag(lags: list[int], shown: str) -> None:
    assert histogram(lags) == shown
