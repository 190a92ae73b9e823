r"""What does a reasoning-gym task's own verifier say of a response?

The row names the task and holds, as JSON, the entry that reasoning-gym made (`trainer/tasks.py`).
The answer is what stands in the last `<answer>...</answer>` of the response. Scores are those of
the verifier: 1 for what is right, for most tasks something small for what is near.

Some verifiers run the answer as Python. A policy that learns what pays must not write programs
for the machine that trains it, so these get only answers that can do nothing: the right answer of
such a task is arithmetic or a list. Those for which no such rule is known are refused.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from rollout.trainer.rewards.answers import tagged
from stages.tables.errors import AspError, shorten

Verifier = Callable[[str | None, dict[str, Any]], float]

MAX_CHARACTERS = 10_000  # of an answer; some verifiers take time that grows with its square

# No name, no call, no power: short, since one product of long numbers is slow enough.
_ARITHMETIC = re.compile(r"(?!.*\*\s*\*)[0-9+\-*/() ]{1,200}")
# Lists of numbers and capital letters: without small letters there is no name or keyword of Python.
_LIST = re.compile(r"[\[\]0-9A-Z_'\", \n-]*")

HARMLESS = {  # tasks whose verifiers run the answer as Python, with what they may be given
    "binary_matrix": _LIST,
    "countdown": _ARITHMETIC,
    "n_queens": _LIST,
    "puzzle24": _ARITHMETIC,
    "spiral_matrix": _LIST,
    "string_insertion": _LIST,
}
REFUSED = frozenset({"intermediate_integration", "polynomial_multiplication", "simple_integration"})


def reasoning_gym(responses: Sequence[str], row: Mapping[str, Any]) -> list[float]:
    """Score each response by the verifier of the row's `task`, which gets the row's `entry`.

    Raises:
        AspError: The row lacks one of the two, or the task is unknown or refused.
    """
    for column in ("task", "entry"):
        if not isinstance(row.get(column), str):
            raise AspError(
                f"reward reasoning-gym: the prompt file has no text in column {column!r}: "
                f"{shorten(row.get(column), 60)}; make it with rollout.trainer.tasks"
            )
    try:
        entry = json.loads(row["entry"])
    except (ValueError, RecursionError) as error:
        raise AspError(f"reward reasoning-gym: column 'entry' is not JSON: {error}") from None
    verify = verifier(row["task"])
    return [verify(tagged(response), entry) for response in responses]


@cache
def verifier(task: str) -> Verifier:
    """The verifier of a task; to it, an answer that could do harm is no answer.

    Raises:
        AspError: reasoning-gym is not installed, or the task is unknown or refused.
    """
    score_answer = factory(task).get_score_answer_fn(task)
    harmless = HARMLESS.get(task)

    def verify(answer: str | None, entry: dict[str, Any]) -> float:
        if answer and (
            len(answer) > MAX_CHARACTERS or (harmless and not harmless.fullmatch(answer))
        ):
            answer = None
        return float(score_answer(answer, entry))

    return verify


def factory(task: str) -> Any:
    """The module of reasoning-gym that makes its tasks, of which `task` is one to be used.

    Raises:
        AspError: reasoning-gym is not installed, or the task is unknown or refused.
    """
    try:
        import reasoning_gym.factory as made
    except ImportError:
        raise AspError(
            "reasoning-gym is not installed; run: pip install 'asp-schedule[tasks]'"
        ) from None
    if task not in made.DATASETS:
        near = ", ".join(get_close_matches(task, made.DATASETS)) or "see its gallery"
        raise AspError(f"reasoning-gym has no task {shorten(task, 60)!r}; near it: {near}")
    if task in REFUSED:
        raise AspError(
            f"reasoning-gym task {task!r}: its verifier runs the answer as a Python program, which "
            "a policy could exploit; use another task, or a verifier of your own (module:function)"
        )
    return made
