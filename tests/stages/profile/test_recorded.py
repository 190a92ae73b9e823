"""Reading recorded responses: files, directories, layouts, several models, repeated logs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stages.profile.logs.trl import without_relogged
from stages.profile.logs.verl import VERL
from stages.profile.recorded import Recording, Selection, read_recording
from stages.tables.errors import AspError


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def verl_row(step: int, text: str) -> dict[str, Any]:
    return {"input": "user\nq\n", "output": text, "gts": "7", "score": 1.0, "step": step}


def test_a_directory_is_read_in_the_order_of_the_steps(tmp_path: Path) -> None:
    for step in (10, 9, 2, 1):
        write_jsonl(tmp_path / f"{step}.jsonl", [verl_row(step, f"answer {step}")])
    (tmp_path / "notes.txt").write_text("not a log")
    recording = read_recording(str(tmp_path), Selection())
    assert recording.layout == VERL
    assert recording.frame["response"].to_list() == [f"answer {s}" for s in (1, 2, 9, 10)]
    assert recording.frame["text"].unique().to_list() == ["user\nq"]
    assert recording.frame["policy_version"].to_list() == [0, 1, 8, 9]


def test_a_log_cut_off_before_its_first_byte_is_skipped(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "1.jsonl", [verl_row(1, "a")])
    (tmp_path / "2.jsonl").touch()
    assert len(read_recording(str(tmp_path), Selection()).frame) == 1


def test_a_step_of_blank_lines_is_skipped_and_odd_digits_sort_as_text(tmp_path: Path) -> None:
    for name in ("2\N{SUPERSCRIPT TWO}3.jsonl", "10.jsonl"):
        write_jsonl(tmp_path / name, [verl_row(1, "a")])
    (tmp_path / "1.jsonl").write_text("\n\n")
    assert len(read_recording(str(tmp_path), Selection()).frame) == 2


def test_values_of_one_column_may_differ_in_type(tmp_path: Path) -> None:
    rows = [verl_row(1, "a"), verl_row(1, "b") | {"gts": {"x": 1}, "score": None}]
    path = write_jsonl(tmp_path / "1.jsonl", rows)
    assert read_recording(path, Selection()).num_rows == 2


def test_an_empty_directory_or_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(AspError, match=r"holds no \.parquet and no \.jsonl file"):
        read_recording(str(tmp_path), Selection())
    pl.DataFrame({"prompt": [], "response_tokens": []}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(AspError, match="holds no recorded responses"):
        read_recording(str(tmp_path / "a.parquet"), Selection())


@pytest.fixture
def two_models(tmp_path: Path) -> str:
    path = tmp_path / "r.parquet"
    pl.DataFrame(
        {"prompt": ["a", "a", "b"], "response_tokens": [1, 2, 3], "model": ["x", "y", "x"]}
    ).write_parquet(path)
    return str(path)


def test_one_of_several_models_is_chosen(two_models: str) -> None:
    recording = read_recording(two_models, Selection(model="x"))
    assert recording.frame["response_tokens"].to_list() == [1, 3]
    assert recording.frame["row"].to_list() == [0, 2]
    assert (recording.model, recording.num_rows) == ("x", 3)


@pytest.mark.parametrize(
    ("model", "line"), [(None, "2 models: x, y; choose one"), ("z", "--rollouts-model 'z'; it has")]
)
def test_no_model_or_a_wrong_one_is_told(two_models: str, model: str | None, line: str) -> None:
    with pytest.raises(AspError, match=line):
        read_recording(two_models, Selection(model=model))


def test_without_a_column_of_models_the_flag_gives_the_name(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pl.DataFrame({"prompt": ["a"], "response_tokens": [1]}).write_parquet(path)
    assert read_recording(str(path), Selection(model="mine")).model == "mine"
    assert read_recording(str(path), Selection()).model == "unknown"


def test_another_models_bad_rows_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pl.DataFrame(
        {"prompt": ["a", "b"], "response_tokens": [None, 3], "model": ["x", "y"]}
    ).write_parquet(path)
    assert read_recording(str(path), Selection(model="y")).frame["response_tokens"].item() == 3
    with pytest.raises(AspError, match=r"row 0 .*: null"):
        read_recording(str(path), Selection(model="x"))


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"question": ["a"], "response_tokens": [1]}, "no column 'prompt' .*it has question"),
        ({"prompt": ["a"]}, "no column with the length"),
        ({"prompt": ["a"], "response": [None]}, "row 0 .*: null"),
        ({"prompt": ["a"], "response_tokens": [1], "max_tokens": [0]}, "whole numbers from 1 to"),
        ({"prompt": ["a"], "response_tokens": [1], "temperature": ["hot"]}, "holds String"),
    ],
)
def test_what_is_missing_or_wrong_is_told(
    tmp_path: Path, columns: dict[str, list[Any]], line: str
) -> None:
    path = tmp_path / "r.parquet"
    pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(AspError, match=line) as caught:
        read_recording(str(path), Selection())
    assert str(caught.value).startswith(str(path))


def test_the_id_column_stands_in_for_the_prompt(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pl.DataFrame({"uid": [7.0], "response_tokens": [1]}).write_parquet(path)
    assert read_recording(str(path), Selection(id_column="uid")).frame["id"].item() == "7"
    with pytest.raises(AspError, match="no column 'id'"):
        read_recording(str(path), Selection(id_column="id"))


def test_a_batch_that_trl_logs_at_several_steps_counts_once(
    make_recording: Callable[..., Recording],
) -> None:
    def batch(step: int, *texts: str) -> list[dict[str, Any]]:
        return [{"text": "q", "response": t, "step": step, "advantage": 0.5} for t in texts]

    rows = [*batch(1, "a", "a"), *batch(2, "a", "a"), *batch(3, "a", "b"), *batch(4, "a", "a")]
    kept, num_dropped = without_relogged(make_recording(rows).frame)
    assert num_dropped == 2
    assert kept["step"].to_list() == [1, 1, 3, 3, 4, 4]
