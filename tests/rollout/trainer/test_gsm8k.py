"""The rule reward for numbers."""

from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.trainer.rewards.gsm8k import final_number, gsm8k
from stages.tables.errors import AspError

SOLUTION = (
    "She sells 16 - 3 - 4 = <<16-3-4=9>>9 eggs a day.\nThat is 9 * 2 = $<<9*2=18>>18.\n#### 18"
)


@pytest.mark.parametrize(
    ("response", "number"),
    [
        ("The answer is 18.", 18),
        ("16 - 3 = 13, then 13 + 5 = 18", 18),
        ("#### 18 dollars, 20 with tip", 18),
        ("#### 17\nNo, wait.\n#### 18", 18),
        (r"\boxed{17}, no: \boxed{18}. There are 3 left.", 18),
        (r"\boxed{18 \text{ eggs}}", 18),
        (r"\boxed{\boxed{18}}", 18),
        ("1,234,567", 1234567),
        ("1{,}234", 1234),
        ("1, 2, 3", 3),
        ("1,2345", 2345),  # no thousands: two numbers
        ("$1,000.50", Fraction("1000.5")),
        (r"-\$5", -5),
        ("it is -5", -5),
        ("−5", -5),
        ("10-7", 7),  # a difference, not a negative number
        ("x-5", 5),
        ("0.50", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("1/2", Fraction(1, 2)),
        ("-3 / 4", Fraction(-3, 4)),
        (r"\boxed{-\dfrac{1}{2}}", Fraction(-1, 2)),
        ("1/0", None),
        ("25%", 25),
        ("007", 7),
        ("#### none", None),
        (r"\boxed{}  7", 7),  # an empty box is no box
        ("", None),
        ("eighteen", None),
        ("٣ Ⅷ ½ １８", None),  # digits of other scripts are no answer
        ("9" * 5000, None),  # nor is what no one would write
        ("2**10, __import__('os').getpid()", 10),  # nothing is run
    ],
)  # fmt: skip
def test_the_number_a_response_ends_on(response: str, number: Fraction | None) -> None:
    assert final_number(response) == number


def test_right_answers_earn_one_and_all_others_nothing() -> None:
    responses = ["18", "18.0", "36/2", "#### 18", "17", "", "the answer is 18 (not 17)"]
    assert gsm8k(responses, {"answer": SOLUTION}) == [1, 1, 1, 1, 0, 0, 0]
    assert gsm8k(["18"], {"answer": 18}) == [1]


def test_it_reads_the_layout_of_verl(sample_data: Path) -> None:
    rows = pl.read_parquet(sample_data / "verl_prompts.parquet").to_dicts()
    for row in rows:
        truth = row["reward_model"]["ground_truth"]
        assert gsm8k([f"So it is {truth}.", "I do not know."], row) == [1, 0]


@pytest.mark.parametrize(
    ("row", "words"),
    [({"prompt": "?"}, "has no column 'answer'"), ({"answer": "unknown"}, "no number in the true")],
)  # fmt: skip
def test_a_row_without_a_true_answer_is_told(row: dict[str, object], words: str) -> None:
    with pytest.raises(AspError, match=words):
        gsm8k(["18"], row)


@given(st.integers(-(10**12), 10**12), st.text(alphabet="#\\boxed{}$ ,.-/\n", max_size=80))
def test_thousands_separators_change_nothing(number: int, noise: str) -> None:
    assert final_number(f"{noise} so {number:,}") == final_number(f"{noise} so {number}")


@pytest.mark.parametrize("unit", [r"\boxed{", "1,111,", "1/", "-", "{", "}", "#### 1 ", "<answer>"])
def test_an_endless_response_is_read_in_one_pass(unit: str) -> None:
    """A search whose time grew with the square of the length would not end here."""
    gsm8k([unit * 50_000], {"answer": 1})
