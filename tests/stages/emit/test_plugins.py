"""The files that trainers load: they import only what is there, and draw every row once."""

import ast
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.emit.stage import PLUGINS
from stages.emit.trainers import TRAINERS

TRAINER_PACKAGES = {"openrlhf", "ray", "roll", "skyrl", "slime", "torch", "torchdata", "verl"}


@pytest.fixture(scope="module", autouse=True)
def on_path() -> Iterator[None]:
    """A trainer finds the directory on its PYTHONPATH."""
    sys.path.insert(0, str(PLUGINS))
    yield
    sys.path.remove(str(PLUGINS))


def make_order(folder: Path, epochs: list[int], step_size: int) -> Any:
    """The order of a directory whose epochs have that many rows."""
    starts = [sum(epochs[:epoch]) for epoch in range(len(epochs))]
    spans = [
        {"epoch": epoch, "first_row": start, "num_rows": count}
        for epoch, (start, count) in enumerate(zip(starts, epochs, strict=True))
    ]
    plan = {
        "num_rows": sum(epochs), "num_epochs": len(epochs), "train_batch_size": step_size,
        "inputs": {"schedule": "ab"}, "epochs": spans, "row_prompt_ids": list(range(sum(epochs))),
        "minibatches": [span | {"group_id": 7, "minibatch_id": 3} for span in spans],
    }  # fmt: skip
    (folder / "asp.json").write_text(json.dumps(plan))
    return importlib.import_module("asp_order").RowOrder(folder)


def test_worked_case_of_a_trainer_that_filters(tmp_path: Path) -> None:
    """Steps of 4 over 10 rows; the first draws 2 more, so the rest of its neighbour comes last."""
    order = make_order(tmp_path, [10], 4)
    assert order.take(6) == [0, 1, 2, 3, 4, 5]
    order.anchor()
    assert order.take(4) == [8, 9, 6, 7]
    assert order.take(4) == []


def test_anchors_stay_within_their_epoch(tmp_path: Path) -> None:
    order = make_order(tmp_path, [5, 5], 2)
    assert order.take(3) == [0, 1, 2]
    order.anchor()
    assert order.take(5) == [4, 3, 5, 6, 7]
    order.anchor()
    assert order.take(9) == [9, 8]


def test_a_step_that_ends_where_planned_moves_nothing(tmp_path: Path) -> None:
    order = make_order(tmp_path, [6], 2)
    drawn = []
    while rows := order.take(2):
        drawn += rows
        order.anchor()
    assert drawn == [0, 1, 2, 3, 4, 5]


@given(
    epochs=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    step_size=st.integers(1, 8),
    draws=st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.booleans()), max_size=60),
)
def test_every_row_is_drawn_once_an_epoch_and_resumed_draws_go_on(
    tmp_path_factory: pytest.TempPathFactory,
    epochs: list[int],
    step_size: int,
    draws: list[tuple[int, bool, bool]],
) -> None:
    folder = tmp_path_factory.mktemp("order")
    order = make_order(folder, epochs, step_size)
    drawn: list[int] = []
    for count, is_anchored, is_killed in draws:
        if is_anchored:
            order.anchor()
        if is_killed:
            state = json.loads(json.dumps(order.state_dict()))
            order = make_order(folder, epochs, step_size)
            order.load_state_dict(state)
        drawn += order.take(count)
    while rows := order.take(5):
        drawn += rows
    start = 0
    for count in epochs:
        assert sorted(drawn[start : start + count]) == list(range(start, start + count))
        start += count
    assert len(drawn) == start


def test_another_file_or_another_schedule_is_refused(tmp_path: Path) -> None:
    order = make_order(tmp_path, [10], 4)
    order.check_length(10)
    with pytest.raises(ValueError, match=r"has 9 rows, but .* plans 10"):
        order.check_length(9)
    with pytest.raises(ValueError, match="another schedule"):
        order.load_state_dict(order.state_dict() | {"schedule": "cd"})


def test_a_row_is_described_by_the_plan(tmp_path: Path) -> None:
    order = make_order(tmp_path, [4, 4], 2)
    assert order.describe(5) == {"prompt_id": 5, "epoch": 1, "group_id": 7, "minibatch_id": 3}


@pytest.fixture
def sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A sampler of a directory of two epochs of 5 rows; tests may make several."""
    make_order(tmp_path, [5, 5], 2)
    for name in ("asp_order.py", "asp_sampler.py"):
        (tmp_path / name).write_text((PLUGINS / name).read_text())
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("asp_order", "asp_sampler"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("asp_sampler").ScheduledSampler
    for name in ("asp_order", "asp_sampler"):
        sys.modules.pop(name, None)


def test_the_sampler_goes_through_the_file_or_through_an_epoch(sampler: Any) -> None:
    drawn = sampler(range(10))
    assert len(drawn) == 10
    assert list(drawn) == list(drawn) == list(range(10))
    drawn.set_epoch(1)
    assert len(drawn) == 5 and list(drawn) == [5, 6, 7, 8, 9]
    drawn.set_epoch(2)
    assert list(drawn) == [0, 1, 2, 3, 4]


def test_the_sampler_goes_on_where_its_state_was_taken(sampler: Any) -> None:
    drawn = sampler(range(10))
    rows = iter(drawn)
    assert [next(rows) for _ in range(3)] == [0, 1, 2]
    drawn.anchor()
    state = json.loads(json.dumps(drawn.state_dict()))
    resumed = sampler(range(10))
    resumed.load_state_dict(state)
    assert list(resumed) == list(rows) == [4, 3, 5, 6, 7, 8, 9]
    assert list(resumed) == list(range(10))


def test_the_sampler_refuses_a_dataset_of_which_rows_were_dropped(sampler: Any) -> None:
    with pytest.raises(ValueError, match="has 9 rows"):
        sampler(range(9))


def test_plugins_import_the_standard_library_and_their_trainer_alone() -> None:
    files = {path.name: path for path in PLUGINS.glob("*.py")}
    used = {name for trainer in TRAINERS.values() for name in trainer.plugins}
    assert used == set(files)
    for trainer in TRAINERS.values():
        for name in trainer.plugins:
            for module in _imported(files[name]):
                is_known = module in sys.stdlib_module_names or module in TRAINER_PACKAGES
                assert is_known or f"{module}.py" in trainer.plugins, (name, module)


def _imported(file: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.split(".")[0] for name in names}
