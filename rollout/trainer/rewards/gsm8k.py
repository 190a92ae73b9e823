r"""Does a response end on the right number?

Its answer is the first number after the last `####`, as in GSM8K; without such a mark, the last
number in the last `\boxed{}`; without a box, its last number. The true answer is read in the same
way, so that a whole worked solution serves. Numbers are compared as fractions, exactly: 0.5, 1/2
and \frac{1}{2} are one, so are 1,000 and 1000; units and percent signs are passed over. Nothing is
evaluated.
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from rollout.trainer.rewards.answers import boxed
from stages.tables.errors import AspError, shorten

MARK = "####"
MAX_CHARACTERS = 100  # of a number; what is longer is no answer

_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"  # commas set off thousands
_NUMBER = re.compile(
    rf"(?P<sign>(?<![\w)])[-−])?\$?(?:"
    rf"\\[dt]?frac\{{(?P<over>{_WHOLE})\}}\{{(?P<under>{_WHOLE})\}}"
    rf"|(?P<value>{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)(?:\s?/\s?(?P<divisor>{_WHOLE}))?)"
)


def gsm8k(responses: Sequence[str], row: Mapping[str, Any]) -> list[float]:
    """1 for each response that ends on the row's number, 0 for the others.

    The true answer stands in the column `answer`, or in verl's `reward_model.ground_truth`.

    Raises:
        AspError: There is none, or no number in it.
    """
    truth = _true_answer(row)
    number = final_number(truth)
    if number is None:
        raise AspError(
            f"reward gsm8k: no number in the true answer {shorten(truth, 60)!r}; mend it, or leave "
            "the prompt out"
        )
    return [float(final_number(response) == number) for response in responses]


def final_number(text: str) -> Fraction | None:
    """The number that a text gives as its answer; None where there is none."""
    text = text.replace("{,}", ",").replace("\\$", "$").replace("\\,", "")  # as LaTeX writes them
    _, mark, answer = text.rpartition(MARK)
    if mark:
        return _value(_NUMBER.search(answer))
    number = None
    for number in _NUMBER.finditer(boxed(text) or text):  # noqa: B007
        pass
    return _value(number)


def _value(number: re.Match[str] | None) -> Fraction | None:
    if number is None or len(number.group()) > MAX_CHARACTERS:
        return None
    over = Fraction((number["over"] or number["value"]).replace(",", ""))
    under = int((number["under"] or number["divisor"] or "1").replace(",", ""))
    if under == 0:
        return None
    return over / under * (-1 if number["sign"] else 1)


def _true_answer(row: Mapping[str, Any]) -> str:
    for answer in (row.get("answer"), (row.get("reward_model") or {}).get("ground_truth")):
        if answer is not None:
            return str(answer)
    raise AspError(
        "reward gsm8k: the prompt file has no column 'answer' nor verl's 'reward_model' with a "
        f"'ground_truth'; it has {', '.join(row)}; add the true answers, or give another --reward"
    )
