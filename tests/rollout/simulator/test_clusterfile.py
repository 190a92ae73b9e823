"""The cluster file: every key read, every mistake one line."""

import json
from pathlib import Path

import pytest

from rollout.control.settings import ControlSettings
from rollout.simulator.cluster import Cluster, GenerationUnit, TrainingUnit
from rollout.simulator.clusterfile import read_cluster
from stages.costs.model import CostModel
from stages.tables.errors import AspError

GOOD = """
mode = "async"
refresh = "rolling"
[generation]
units = 2
actors = 3
slots = 16
engine = "static"
speeds = [1, 0.5]
reload_seconds = 3
[generation.cost]
step_seconds = 0.1
sequence_seconds = 0.01
prefill_seconds = 0.001
kv_seconds = 0
[training]
devices = 4
tokens_per_second = 250
step_seconds = 7
publication_seconds = 2
[queue]
capacity = 512
[lag]
max_lag = 2
"""


def written(folder: Path, text: str) -> str:
    path = folder / "cluster.toml"
    path.write_text(text)
    return str(path)


def test_every_number_reaches_its_place(tmp_path: Path) -> None:
    found = read_cluster(written(tmp_path, GOOD))
    units = (GenerationUnit(3, 1, 16, 1.0), GenerationUnit(3, 1, 16, 0.5))
    training = TrainingUnit(4, 0.004, 7.0, 0.0, 2.0)
    costs = CostModel(0.1, 0.01, 0.001, 0.0)
    assert found.cluster == Cluster(units, training, costs, "static", 3.0)
    assert found.settings == ControlSettings(max_lag=2, queue_capacity=512, refresh="rolling")
    assert found.mode == "async"
    assert [item.role for item in found.inputs] == ["cluster"]


def test_a_file_of_coefficients_is_found_beside_it(tmp_path: Path) -> None:
    costs = {"step_seconds": 1, "sequence_seconds": 0, "prefill_seconds": 0, "kv_seconds": 0}
    (tmp_path / "cost.json").write_text(json.dumps(costs))
    start, rest = GOOD.split("[generation.cost]")
    text = f'{start}cost_model = "cost.json"\n[training]{rest.split("[training]")[1]}'
    found = read_cluster(written(tmp_path, text))
    assert found.cluster.cost_model == CostModel(1.0, 0.0)
    assert [item.role for item in found.inputs] == ["cluster", "cost_model"]


def test_the_sample_has_every_key(sample_data: Path) -> None:
    found = read_cluster(str(sample_data / "cluster.toml"))
    assert found.mode == "asp"
    assert found.cluster.training.export_seconds and found.cluster.switching_seconds


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("slots = 16", "slots = 0", r"generation\.slots is 0; give a whole number from 1 to"),
        ("slots = 16", "slots = 1.5", r"generation\.slots is 1\.5; give a whole number"),
        ("slots = 16", "slots = true", r"generation\.slots is true; give a whole number"),
        ("slots = 16", "", r"generation\.slots is missing; give a whole number"),
        ("slots = 16", "slots = 16\nslotz = 1", r"generation\.slotz is unknown; \[generation\] ha"),
        ("mode =", "mood = 1\nmode =", "mood is unknown; the top has mode, refresh, generation"),
        ('"async"', '"fast"', 'mode is "fast"; give one of asp, async, hybrid'),
        ('"async"', "[1]", r"mode is \[1\]; give one of"),
        ('"rolling"', '"never"', 'refresh is "never"; give one of unload, finish, rolling'),
        ("[1, 0.5]", "[1]", r"generation\.speeds is \[1\]; give a list of 2 numbers above 0"),
        ("[1, 0.5]", "[1, 0]", r"generation\.speeds is \[1, 0\]"),
        ("reload_seconds = 3", "reload_seconds = -3", r"reload_seconds is -3; give seconds"),
        ("reload_seconds = 3", "reload_seconds = nan", r"reload_seconds is NaN; give seconds"),
        ("tokens_per_second = 250", "tokens_per_second = 0", r"training\.tokens_per_second is 0;"),
        ("tokens_per_second = 250", "tokens_per_second = 1e-320", r"tokens_per_second is 1e-320;"),
        ("step_seconds = 0.1", "step_seconds = -1", r"generation\.cost: step_seconds is -1"),
        ("kv_seconds = 0", "", r"generation\.cost: lacks kv_seconds"),
        ("engine =", 'cost_model = "c"\nengine =', 'cost_model is "c"; give either this or'),
        ("capacity = 512", "capacity = -1", r"queue\.capacity is -1; give a whole number from 1"),
        ("max_lag = 2", "max_lag = -1", r"lag\.max_lag is -1; give a whole number from 0"),
        ("[lag]\nmax_lag = 2", "", r"lag is missing; give a table"),
        ("units = 2", "units = 999999", r"generation\.actors is 3; give at most 1000000 in all"),
        ("devices = 4", "devices 4", "not a TOML file: "),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(AspError, match=words) as mistake:
        read_cluster(written(tmp_path, GOOD.replace(old, new)))
    assert str(mistake.value).startswith(f"{tmp_path}/cluster.toml: ")
