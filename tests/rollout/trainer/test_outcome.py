"""Whether what was trained on is what was offered."""

from rollout.control.uniform import uniform_plan
from rollout.trainer.outcome import of_lengths

PLAN = uniform_plan(range(4), 2, 1, 2, budgets=(10,))


def test_all_that_was_offered() -> None:
    (line,) = of_lengths([([4, 8], [4, 8]), ([2, 6], [2, 6])], PLAN, "tokens")
    assert line.startswith("responses trained on: all that were offered, 5 tokens on average")


def test_restarting_tells_its_bias() -> None:
    """One response of four was cut, and came short the second time: 25% offered, none trained on.

    With p = 1/4 and n = 2, independent draws would give p (1 - (1 - p)^2) = 7/64.
    """
    lines = of_lengths([([4, 8], [4, 8]), ([2, 6], [2, 10])], PLAN, "restart")
    assert "were 25.0% of those offered and are 0.0% of those trained on" in lines[1]
    assert "independent draws would give 10.9%" in lines[1]
