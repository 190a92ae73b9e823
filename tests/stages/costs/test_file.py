"""Files of coefficients, good and bad."""

import json
from pathlib import Path

import pytest

from stages.costs.file import parse_coefficients, read_cost_model
from stages.costs.model import CostModel
from stages.tables.errors import AspError

GOOD = {"step_seconds": 1, "sequence_seconds": 0.5, "prefill_seconds": 0, "kv_seconds": 1e-9}


def test_coefficients_are_read(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps(GOOD))
    source = read_cost_model(str(tmp_path / "c.json"))
    assert source.model == CostModel(1.0, 0.5, 0.0, 1e-9)
    assert source.results == {} and source.input.role == "cost_model"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("step_seconds: 1", "neither JSON nor Parquet"),
        ("", "neither JSON nor Parquet"),
        ("[1]", "holds no JSON object"),
        (json.dumps(GOOD | {"speed": 1}), "key 'speed' is unknown; those of a cost model are step"),
        ('{"step_seconds": 1}', "lacks sequence_seconds, prefill_seconds, kv_seconds; give 0"),
        (json.dumps(GOOD | {"kv_seconds": -1}), "kv_seconds is -1; a number of seconds from 0"),
        (json.dumps(GOOD | {"kv_seconds": float("nan")}), "kv_seconds is NaN"),
        (json.dumps(GOOD | {"kv_seconds": float("inf")}), "kv_seconds is Infinity"),
        (json.dumps(GOOD | {"step_seconds": "1"}), 'step_seconds is "1"; a number'),
        (json.dumps(GOOD | {"step_seconds": True}), "step_seconds is true"),
        (json.dumps(GOOD | {"step_seconds": None}), "step_seconds is null"),
        (json.dumps(GOOD | {"step_seconds": 10**400}), "step_seconds is 1000"),
        (json.dumps(GOOD | {"step_seconds": 0, "sequence_seconds": 0}), "one must cost time"),
    ],
)
def test_a_bad_file_is_one_line(text: str, words: str) -> None:
    with pytest.raises(AspError) as caught:
        parse_coefficients("c.json", text.encode())
    assert str(caught.value).startswith("c.json: ") and words in str(caught.value)
