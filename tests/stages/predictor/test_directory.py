import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stages.predictor.directory import Stored, load_predictor, save_predictor
from stages.tables.errors import AspError

TEXTS = [
    "Add the numbers 5 and 6 in your head and give nothing but the result, please.",
    "Prove that 7 is prime.\nThen list:\n- every divisor of 7",
    "☃",
    "something else",
]


def test_a_predictor_survives_the_disk(stored: Stored, tmp_path: Path) -> None:
    save_predictor(tmp_path, stored)
    again = load_predictor(str(tmp_path))
    assert again.domain == stored.domain
    assert again.provenance == stored.provenance
    assert again.scores and stored.scores and again.scores.predictor == stored.scores.predictor
    assert again.usual_unseen_share == stored.usual_unseen_share
    assert again.marginal is None
    for ours, theirs in zip(
        stored.predictor.predict(TEXTS), again.predictor.predict(TEXTS), strict=True
    ):
        assert np.array_equal(ours, theirs)


def test_the_directory_holds_no_pickle_and_names_no_place(predictor_path: Path) -> None:
    files = {file.name: file.read_bytes() for file in predictor_path.iterdir()}
    assert set(files) == {
        "predictor.json", "arrays.safetensors", "vocabulary.json", "heldout.parquet"
    }  # fmt: skip
    assert not any(str(predictor_path.parent).encode() in content for content in files.values())
    assert json.loads(files["predictor.json"])["scores"]["num_prompts"] == 150


def edit(**changes: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / "predictor.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def damage(folder: Path) -> None:
    path = folder / "arrays.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, "does not exist"),
        (lambda d: (shutil.rmtree(d), d.write_text("x")), "is a file"),
        (lambda d: (d / "predictor.json").unlink(), "predictor.json is missing"),
        (lambda d: (d / "predictor.json").write_text("{"), "not JSON"),
        (lambda d: (d / "predictor.json").write_text("[]"), "not a predictor of this tool"),
        (edit(format="other"), "its format is 'other'"),
        (edit(version=99), "format 99, but this build reads 4"),
        (edit(backend="other"), "backend 'other'"),
        (edit(spread={}), "not as `asp train-predictor` wrote it"),
        (edit(files={}), "not as `asp train-predictor` wrote it"),
        (lambda d: (d / "vocabulary.json").unlink(), "vocabulary.json is missing"),
        (damage, "arrays.safetensors: damaged"),
    ],
)
def test_a_directory_that_is_no_predictor_is_refused(
    predictor_path: Path, tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    folder = tmp_path / "predictor"
    shutil.copytree(predictor_path, folder)
    spoil(folder)
    with pytest.raises(AspError, match=message):
        load_predictor(str(folder))
