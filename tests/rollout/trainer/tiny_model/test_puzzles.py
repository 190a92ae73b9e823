"""The tiny model's puzzles, and the program that works them out."""

import random
import re
from itertools import islice, pairwise
from typing import Any

import pytest

pytest.importorskip("reasoning_gym")

from rollout.trainer.rewards.answers import tagged
from rollout.trainer.rewards.reasoning_gym import verifier
from rollout.trainer.tasks import entries
from rollout.trainer.tiny_model.puzzles import PUZZLES, Countdown, Maze

# S at b1, G at b3; the way round by a takes 4 steps, so does the one by c, where c3 is missing:
#   a1 a2 a3
#   b1    b3
#   c1 c2
MAZE: dict[str, Any] = {
    "question": "?",
    "answer": "4",
    "metadata": {
        "grid": ["wwwww", "w...w", "wSwGw", "w..ww", "wwwww"],
        "wall": "w", "path": ".", "start": "S", "goal": "G",
    },
}  # fmt: skip
SUM: dict[str, Any] = {
    "question": "?", "answer": "9 - 2 - 3", "metadata": {"numbers": [9, 2, 3], "target": 4}
}  # fmt: skip


def test_a_maze_by_hand() -> None:
    assert Maze().prompt(MAZE) == "Fewest steps from b1 to b3 through a1 a2 a3 b1 b3 c1 c2 ?\n"
    responses = {Maze().work_out(MAZE, random.Random(seed)) for seed in range(30)}
    assert responses == {
        f"{manner}{detour}1a1 2a2 3a3 4b3 <answer>4</answer>"
        for manner in ("Roam: ", "Aim: ")
        for detour in ("0b1 ", "0b1 1c1 2c2 1c1 0b1 ")  # into the dead end first
    }


def test_a_sum_by_hand() -> None:
    assert Countdown().prompt(SUM) == "Reach 4 with 9 2 3?\n"
    responses = {Countdown().work_out(SUM, random.Random(seed)) for seed in range(200)}
    assert "9-2=7-3=4 <answer>9-2-3</answer>" in responses
    assert "9+2=11-3=8 no\n9-2=7-3=4 <answer>9-2-3</answer>" in responses
    assert max(response.count("no") for response in responses) == 2
    last = [response.splitlines()[2] for response in responses if response.count("no") == 2]
    assert "9+2=11+3=14 <answer>9+2+3</answer>" in last  # which is wrong


@pytest.mark.parametrize("seed", [0, 1])
def test_a_walk_goes_from_cell_to_cell_and_tells_its_depth(seed: int) -> None:
    maze, verify, rng = Maze(), verifier("maze"), random.Random(seed)
    for entry in islice(entries("maze", maze.config, seed), 100):
        start, goal, *floor = re.findall(r"[a-f][1-6]", maze.prompt(entry))
        response = maze.work_out(entry, rng)
        visits = re.findall(r"(\d+)([a-f])([1-6]) ", response)
        assert [r + c for _, r, c in (visits[0], visits[-1])] == [start, goal]
        assert visits[0][0] == "0"
        for (depth, row, column), (next_depth, *there) in pairwise(visits):
            assert "".join(there) in floor
            assert abs(int(next_depth) - int(depth)) == 1
            assert abs(ord(row) - ord(there[0])) + abs(int(column) - int(there[1])) == 1
        answer = tagged(response)
        assert answer == visits[-1][0]
        assert int(answer) >= int(entry["answer"])  # no walk is shorter than the shortest
        assert (verify(answer, entry) == 1) == (answer == entry["answer"])


def test_sums_add_up_and_count_where_they_reach_the_target() -> None:
    countdown, verify, rng = Countdown(), verifier("countdown"), random.Random(0)
    for entry in islice(entries("countdown", countdown.config, 0), 40):
        response = countdown.work_out(entry, rng)
        for line in response.splitlines():
            total = int(line[0])
            for term, result in re.findall(r"([+-]\d)=(-?\d+)", line):
                total += int(term)
                assert total == int(result)
        is_right = total == entry["metadata"]["target"]
        assert (verify(tagged(response), entry) == 1) == is_right


@pytest.mark.parametrize("task", PUZZLES)
def test_solutions_are_sometimes_wrong_and_differ_in_length_between_prompts(task: str) -> None:
    """The room that training by reward has, and what predicts a length."""
    puzzle, verify, rng = PUZZLES[task], verifier(task), random.Random(0)
    made = list(islice(entries(task, puzzle.config, 0), 50))
    responses = [[puzzle.work_out(entry, rng) for _ in range(4)] for entry in made]
    right = sum(
        verify(tagged(response), entry) == 1
        for entry, group in zip(made, responses, strict=True)
        for response in group
    )
    assert 0.4 < right / 200 < 0.9
    means = sorted(sum(map(len, group)) / 4 for group in responses)
    assert means[45] > 1.5 * means[5]
