"""What do the tiny model's puzzles look like, and how does a program work one out?

The puzzles are reasoning-gym's, worded in few tokens. The program that works them out wanders: it
tries at random, writes down what it tries, and answers with the first thing that fits. So a
model warm-started on its texts knows every move yet not which is good: lengths vary with the
puzzle and by chance, rewards are middling, and there is something for GRPO to find.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from typing import Any

Cell = tuple[int, int]  # row, column, from 0
ROWS, COLUMNS = "abcdef", "123456"
PULLS = {"Roam: ": 1, "Aim: ": 8}  # manners of walking: how many times likelier a way nearer is


class Puzzle(ABC):
    """A reasoning-gym task at a size for a tiny model."""

    task: str
    config: dict[str, Any]  # of the reasoning-gym task
    phrases: tuple[str, ...]  # what every prompt says, a token each
    max_response_tokens: int  # almost all worked solutions are shorter

    @abstractmethod
    def prompt(self, entry: dict[str, Any]) -> str:
        """The prompt of a reasoning-gym entry."""

    @abstractmethod
    def difficulty(self, entry: dict[str, Any]) -> int:
        """What makes an entry harder than another."""

    @abstractmethod
    def work_out(self, entry: dict[str, Any], rng: random.Random) -> str:
        """A response to it, which may be wrong."""


class Maze(Puzzle):
    """How many steps does the shortest way through a maze take?

    Worked out by a walk that enters no cell twice and backs out of dead ends. It says first how
    it will walk: it roams, all ways alike, or, one time in three, it aims, and prefers what brings
    it nearer to the goal. It writes the depth of each cell before its name, and answers with the
    depth of the goal, which is wrong where it made a detour.
    """

    task = "maze"
    config = {"min_grid_size": 6, "max_grid_size": 8, "min_dist": 3, "max_dist": 12}  # noqa: RUF012
    phrases = (
        "Fewest steps from ", "to ", "through ", "?\n", *PULLS,
        *(f"{row}{column} " for row in ROWS for column in COLUMNS),
    )  # fmt: skip
    max_response_tokens = 96

    def prompt(self, entry: dict[str, Any]) -> str:
        """`Fewest steps from a1 to b2 through a1 b1 b2 c1 ?`: a maze as the list of its cells."""
        cells, start, goal = _floor(entry["metadata"])
        passages = "".join(map(_name, cells))
        return f"Fewest steps from {_name(start)}to {_name(goal)}through {passages}?\n"

    def difficulty(self, entry: dict[str, Any]) -> int:
        """Steps of the shortest way."""
        return int(entry["answer"])

    def work_out(self, entry: dict[str, Any], rng: random.Random) -> str:
        """`Aim: 0a1 1b1 2c1 1b1 2b2 <answer>2</answer>`."""
        manner = rng.choices(list(PULLS), (2, 1))[0]
        visits = list(_walk(*_floor(entry["metadata"]), PULLS[manner], rng))
        steps = "".join(f"{depth}{_name(cell)}" for depth, cell in visits)
        return f"{manner}{steps}<answer>{visits[-1][0]}</answer>"


def _floor(metadata: dict[str, Any]) -> tuple[list[Cell], Cell, Cell]:
    """The cells that are no wall, row by row; start; goal."""
    chars = {(r, c): char for r, row in enumerate(metadata["grid"]) for c, char in enumerate(row)}
    cells = [cell for cell, char in chars.items() if char != metadata["wall"]]
    start, goal = (next(c for c in cells if chars[c] == metadata[end]) for end in ("start", "goal"))
    return cells, start, goal


def _name(cell: Cell) -> str:
    """As on a chess board; the outer wall has no names."""
    return f"{ROWS[cell[0] - 1]}{COLUMNS[cell[1] - 1]} "


def _walk(
    cells: Container[Cell], start: Cell, goal: Cell, pull: int, rng: random.Random
) -> Iterator[tuple[int, Cell]]:
    """Depth and cell of each stop, from the start to the goal."""
    path, seen = [start], {start}
    yield 0, start
    while path[-1] != goal:
        row, column = path[-1]
        around = [(row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)]
        ways = [cell for cell in around if cell in cells and cell not in seen]
        if ways:
            is_nearer = [_distance(cell, goal) < _distance(path[-1], goal) for cell in ways]
            path += rng.choices(ways, [pull if nearer else 1 for nearer in is_nearer])
            seen.add(path[-1])
        else:
            path.pop()
        yield len(path) - 1, path[-1]


def _distance(one: Cell, other: Cell) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


class Countdown(Puzzle):
    """Which signs before the numbers make their sum the target?

    Worked out by drawing signs, adding up, and starting over while the sum is wrong, three times
    at most: with six a model finds nearly what there is by luck. The last sum is the answer. Of two
    signs it prefers, 2 to 1, the one that leads towards the target.
    """

    task = "countdown"
    config = {  # noqa: RUF012
        "min_numbers": 3, "max_numbers": 5, "min_value": 1, "max_value": 9, "min_target": 1,
        "max_target": 30, "operators": ("+", "-"), "shuffle": False,
    }  # fmt: skip
    phrases = (
        "Reach ", " with ", "?\n", "no\n", *(f"{sign}{n}=" for sign in "+-" for n in range(1, 10))
    )  # fmt: skip
    max_response_tokens = 96
    max_tries = 3

    def prompt(self, entry: dict[str, Any]) -> str:
        """`Reach 4 with 9 2 3?`."""
        numbers = " ".join(map(str, entry["metadata"]["numbers"]))
        return f"Reach {entry['metadata']['target']} with {numbers}?\n"

    def difficulty(self, entry: dict[str, Any]) -> int:
        """How many numbers there are."""
        return len(entry["metadata"]["numbers"])

    def work_out(self, entry: dict[str, Any], rng: random.Random) -> str:
        """`9+2=11-3=8 no` and, on the next line, `9-2=7-3=4 <answer>9-2-3</answer>`."""
        numbers, target = entry["metadata"]["numbers"], entry["metadata"]["target"]
        lines = []
        for _ in range(self.max_tries):
            total, signed = numbers[0], [str(numbers[0])]
            line = signed[0]
            for number in numbers[1:]:
                towards = number if total < target else -number
                term = rng.choices((towards, -towards), (2, 1))[0]
                total += term
                signed.append(f"{term:+}")
                line += f"{term:+}={total}"
            lines.append(f"{line} ")
            if total == target:
                break
        return "no\n".join(lines) + f"<answer>{''.join(signed)}</answer>"


PUZZLES: dict[str, Puzzle] = {puzzle.task: puzzle for puzzle in (Maze(), Countdown())}
