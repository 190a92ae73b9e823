"""Where the answer of a response stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.trainer.rewards.answers import boxed, tagged


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<answer>5</answer>", "5"),
        ("first <answer>4</answer>, no: <answer> 5\n</answer> done", "5"),
        ("<answer><answer>5</answer>", "5"),
        ("<answer>4</answer></answer>", "4</answer>"),
        ("<answer>5", None),
        ("5</answer>", None),
        ("</answer>5<answer>", None),
        ("<answer></answer>", ""),
        ("", None),
    ],
)
def test_the_last_pair_of_tags_holds_the_answer(response: str, answer: str | None) -> None:
    assert tagged(response) == answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{5}", "5"),
        (r"\boxed{4}, no: \boxed{ \frac{1}{2} }.", r"\frac{1}{2}"),
        (r"\boxed{x = \boxed{5}}", r"x = \boxed{5}"),
        (r"\boxed{\boxed{5}", "5"),  # the outer one is never closed
        (r"{\boxed{5}}}}", "5"),
        (r"\boxed 5", None),
        (r"\boxed{5", None),
        ("{5}", None),
        ("", None),
    ],
)
def test_the_last_box_that_is_closed_holds_the_answer(response: str, answer: str | None) -> None:
    assert boxed(response) == answer


@given(st.text(alphabet="{}\\boxed<answer>/ 5", max_size=200))
def test_an_answer_is_a_part_of_its_response(response: str) -> None:
    for answer in (tagged(response), boxed(response)):
        assert answer is None or answer in response
