"""The reward of reasoning-gym's verifiers, and the prompts of its tasks."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("reasoning_gym")

from rollout.trainer.rewards.reasoning_gym import HARMLESS, REFUSED, reasoning_gym
from rollout.trainer.tasks import main, make_prompts
from stages.tables.errors import AspError
from stages.tables.prompt_survey import read_prompts


def row_of(task: str, answer: str, **metadata: Any) -> dict[str, str]:
    entry = {"question": "?", "answer": answer, "metadata": metadata}
    return {"task": task, "entry": json.dumps(entry)}


MAZE = row_of("maze", "7")
COUNTDOWN = row_of("countdown", "94*4 - 61 - 6", numbers=[6, 61, 94, 4], target=309)


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("2 right, 5 down: <answer>7</answer>", 1.0),
        ("<answer>17</answer>", 0.5),  # what holds the answer earns its share: the verifier's rule
        ("<answer>8</answer>", 0.0),
        ("7", 0.0),  # outside the tags
        ("", 0.0),
        ("<answer></answer>", 0.0),
        ("<answer>" + "7" * 20_000 + "</answer>", 0.0),
        ("<answer>" * 50_000, 0.0),
        ("<answer>７ ∞ \ud800\x00</answer>", 0.0),
    ],
)
def test_a_maze_is_judged_by_its_own_verifier(response: str, score: float) -> None:
    assert reasoning_gym([response], MAZE) == [score]


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("94*4 - 61 - 6", 1.0),
        ("(94 * 4) - (61 + 6)", 1.0),
        ("94*4 - 61 + 6", 0.05),  # the right numbers, another value
        ("309", 0.05),
        ("94*4 - 61 - 6 = 309", 0.01),
        ("94 // 0 * 4 * 61 * 6", 0.01),
        ("9**9**9**9", 0.01),
        ("9* *9* *9* *9", 0.01),
        ("(" * 200, 0.01),
        ("__import__('pathlib').Path('{trap}').touch()", 0.01),
        ("94*4 - 61 - 6 if open('{trap}', 'w') else 0", 0.01),
    ],
)
def test_countdown_is_judged_without_running_programs(
    answer: str, score: float, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    response = f"<answer>{answer.format(trap=trap)}</answer>"
    assert reasoning_gym([response], COUNTDOWN) == [score]
    assert not trap.exists()


@pytest.mark.parametrize("task", ["maze", *sorted(HARMLESS)])
def test_right_answers_pass_the_guard_and_the_way_through_a_file(task: str) -> None:
    for row in make_prompts(task, {}, seed=3, num_prompts=4).to_dicts():
        answer = json.loads(row["entry"])["answer"]
        assert reasoning_gym([f"So: <answer>{answer}</answer>", "?"], row)[0] == 1.0
        assert reasoning_gym(["?"], row)[0] < 0.1


def test_every_task_whose_verifier_runs_the_answer_is_guarded() -> None:
    """A verifier that calls eval or parse_expr and is not known here would be a hole."""
    import inspect

    from reasoning_gym.factory import DATASETS

    running = {
        task
        for task, (dataset, _) in DATASETS.items()
        if any(call in inspect.getsource(dataset.score_answer) for call in ("eval(", "parse_expr("))
    }
    trusted = {"number_sorting"}  # runs the right answer alone
    assert running - trusted == set(HARMLESS) | REFUSED


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt": "?"}, "no text in column 'task'"),
        ({"task": "maze"}, "no text in column 'entry'"),
        ({"task": "maze", "entry": "{"}, "'entry' is not JSON"),
        (row_of("mazes", "7"), "no task 'mazes'; near it: maze"),
        (row_of("polynomial_multiplication", "x"), "a policy could exploit"),
    ],
)
def test_a_row_that_it_cannot_judge_is_told(row: dict[str, str], words: str) -> None:
    with pytest.raises(AspError, match=words):
        reasoning_gym(["<answer>7</answer>"], row)


def test_prompts_differ_between_each_other_and_between_seeds() -> None:
    config = {"min_grid_size": 6, "max_grid_size": 6, "min_dist": 3, "max_dist": 6}
    one, same, other = (
        make_prompts("maze", config, seed, 30) for seed in (0, 0, 1)
    )  # fmt: skip
    assert one.equals(same)
    assert len({*one["prompt"], *other["prompt"]}) == 60


def test_a_task_with_too_few_prompts_says_so() -> None:
    config = {"min_grid_size": 4, "max_grid_size": 4, "min_dist": 1, "max_dist": 1}
    with pytest.raises(AspError, match=r"made only \d+ that differ"):
        make_prompts("maze", config, 0, 20, prompt_of=lambda entry: entry["answer"])


def test_the_command_writes_a_prompt_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts.parquet"
    main(["countdown", "--num-prompts", "5", "--seed", "1", "-o", str(path)])
    assert read_prompts(str(path)).frame["domain"].unique().to_list() == ["countdown"]
    row = pl.read_parquet(path).row(0, named=True)
    assert row["prompt"].endswith("between <answer> and </answer>.")
    for mistake in (["countdown", "-o", str(path)], ["no_such", "-o", str(tmp_path / "p")]):
        with pytest.raises(SystemExit, match="tasks: error: "):
            main(mistake)
