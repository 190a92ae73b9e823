"""The order in which a trainer is to draw the rows of this directory's data file.

It lies beside `asp.json`, which it reads, and needs the standard library alone.
"""

import json
from bisect import bisect_right
from collections import deque
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent


class RowOrder:
    """Rows of the data file, each once a pass, planned step after planned step.

    A trainer that filters prompts out draws others for them, and ends its step in the middle of a
    planned one. `anchor`, called where a step starts, puts off what is left of that to the end of
    the epoch: each step starts where a planned one does, and every row is still drawn once.

    Attributes:
        num_rows: Rows of the data file.
        num_epochs: Epochs that it holds, one after the other, each in an order of its own.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        plan = json.loads((folder / "asp.json").read_text(encoding="utf-8"))
        self.num_rows: int = plan["num_rows"]
        self.num_epochs: int = plan["num_epochs"]
        self._schedule: str = plan["inputs"]["schedule"]
        self._prompt_ids: list[int] = plan["row_prompt_ids"]
        self._minibatches: list[dict[str, Any]] = plan["minibatches"]
        self._first_rows = [span["first_row"] for span in self._minibatches]
        self._steps_e = [_cut(span, plan["train_batch_size"]) for span in plan["epochs"]]
        self.start()

    def check_length(self, num_rows: int) -> None:
        """Refuse a dataset that is not this directory's file, or of which rows were dropped.

        Raises:
            ValueError: It has another number of rows.
        """
        if num_rows != self.num_rows:
            raise ValueError(
                f"the dataset has {num_rows} rows, but {FOLDER / 'asp.json'} plans "
                f"{self.num_rows}: give the data file of that directory, and let nothing drop "
                "rows of it (asp emit --max-prompt-tokens drops long prompts beforehand)"
            )

    def start(self, epoch: int | None = None) -> None:
        """Begin a pass: over that epoch of the plan, or over the whole file."""
        self._left_e = deque(deque(steps) for steps in self._chosen(epoch))
        self._is_inside = False

    def rows_of_pass(self, epoch: int | None = None) -> int:
        """Rows of a whole pass."""
        return sum(stop - first for steps in self._chosen(epoch) for first, stop in steps)

    def _chosen(self, epoch: int | None) -> list[list[tuple[int, int]]]:
        return self._steps_e if epoch is None else [self._steps_e[epoch % self.num_epochs]]

    def take(self, count: int) -> list[int]:
        """The next rows; fewer at the end of the pass."""
        rows: list[int] = []
        while len(rows) < count and self._left_e:
            steps = self._left_e[0]
            if not steps:
                self._left_e.popleft()
                continue
            first, stop = steps.popleft()
            middle = min(stop, first + count - len(rows))
            rows += range(first, middle)
            self._is_inside = middle < stop
            if self._is_inside:
                steps.appendleft((middle, stop))
        return rows

    def anchor(self) -> None:
        """A training step starts: go on at the next planned step that was not begun."""
        if self._is_inside:
            self._left_e[0].rotate(-1)
            self._is_inside = False

    def describe(self, row: int) -> dict[str, int]:
        """What the plan says of a row: prompt_id, epoch, and, but for repeats, where it belongs."""
        facts = {"prompt_id": self._prompt_ids[row]}
        span = self._minibatches[max(0, bisect_right(self._first_rows, row) - 1)]
        if row < span["first_row"] + span["num_rows"]:
            facts |= {name: span[name] for name in ("epoch", "group_id", "minibatch_id")}
        return facts

    def state_dict(self) -> dict[str, Any]:
        """Where the pass stands, in plain JSON."""
        left = [[list(step) for step in steps] for steps in self._left_e]
        return {"schedule": self._schedule, "left": left, "is_inside": self._is_inside}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there.

        Raises:
            ValueError: The state is of another schedule.
        """
        if state["schedule"] != self._schedule:
            raise ValueError(
                f"the checkpoint stands in another schedule than {FOLDER}: go on with the "
                "directory that it was begun with, or start anew"
            )
        self._left_e = deque(
            deque((first, stop) for first, stop in steps) for steps in state["left"]
        )
        self._is_inside = state["is_inside"]


def _cut(span: dict[str, int], step_size: int) -> list[tuple[int, int]]:
    """First row and end of each planned step of an epoch."""
    first, end = span["first_row"], span["first_row"] + span["num_rows"]
    return [(row, min(end, row + step_size)) for row in range(first, end, step_size)]
