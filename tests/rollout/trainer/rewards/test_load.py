"""Which reward a name means."""

from pathlib import Path

import pytest

from rollout.trainer.rewards.load import NAMED, check_rows, load_reward
from stages.tables.errors import AspError


@pytest.mark.parametrize("name", NAMED)
def test_each_of_ours(name: str) -> None:
    assert load_reward(name, ".").__module__.startswith("rollout.trainer.rewards")  # type: ignore[attr-defined]


def test_gsm8k_by_its_name() -> None:
    assert list(load_reward("gsm8k", ".")(["#### 7", "8"], {"answer": "7"})) == [1.0, 0.0]


def test_a_function_of_a_module() -> None:
    assert load_reward("math:prod", ".") is __import__("math").prod


def test_a_module_of_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / "my_own_reward.py").write_text("def score(responses, row): return [1.0]")
    assert load_reward("my_own_reward:score", str(tmp_path))(["a"], {}) == [1.0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("truth", "--reward truth: is no reward of this tool"),
        ("no_such_module:f", "cannot be imported: ModuleNotFoundError"),
        ("math:no_such", "cannot be imported: AttributeError"),
        ("math:pi", "is a float, not a function"),
    ],
)
def test_what_is_none_is_refused(name: str, message: str) -> None:
    with pytest.raises(AspError, match=message):
        load_reward(name, ".")


def test_prompts_that_a_reward_cannot_score_are_told() -> None:
    rows = {3: {"answer": "7"}, 5: {"answer": "seven"}}
    check_rows("gsm8k", ".", {3: rows[3]})
    with pytest.raises(AspError, match="prompt_id 5: reward gsm8k: no number in the true answer"):
        check_rows("gsm8k", ".", rows)
    check_rows("math:prod", ".", rows)
