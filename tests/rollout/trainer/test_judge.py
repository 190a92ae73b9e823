"""A reward's answers are checked before they are believed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rollout.trainer.judge import Judge


def decode(tokens: Sequence[int]) -> str:
    return "".join(map(str, tokens))


def longer_than_asked(responses: Sequence[str], row: Mapping[str, Any]) -> list[float]:
    return [float(len(response) > row["least"]) for response in responses]


def test_it_scores_the_text_with_the_prompts_row() -> None:
    judge = Judge(lambda: longer_than_asked, lambda: decode)
    assert judge.score([[1, 2], [1, 2, 3]], {"least": 2}) == [0.0, 1.0]


@pytest.mark.parametrize("rewards", [[1.0], [1.0, float("nan")]])
def test_other_than_so_many_finite_numbers_is_no_answer(rewards: list[float]) -> None:
    judge = Judge(lambda: lambda responses, row: rewards, lambda: decode)
    with pytest.raises(ValueError, match="as many finite numbers are needed"):
        judge.score([[1], [2]], {})
