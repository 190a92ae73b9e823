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
pacing = "watermark"
set_point = 99
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
    assert found.settings == ControlSettings(
        max_lag=2, queue_capacity=512, pacing="watermark", set_point=99, refresh="rolling"
    )
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
        ("[1, 0.5]", "[1]", r"generation\.speeds is \[1\]; give a list of 2 numbers from"),
        ("[1, 0.5]", "[1, 1e-320]", r"speeds is \[1, 1e-320\]; give a list of 2 numbers"),
        ("[1, 0.5]", f"[1, {'9' * 400}]", r"speeds is \[1, 9+\.\.\.; give a list of 2"),
        ("slots = 16", f"slots = {'9' * 5000}", "not a TOML file: Exceeds the limit .* it$"),
        ("slots = 16", f"slots = 0x{'f' * 5000}", "not a TOML file: Exceeds the limit .* it$"),
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
        ("units = 2", "units = 999999", r"generation\.actors is 3; give at most 10000 in all"),
        ("devices = 4", "devices = 99999", r"training\.devices is 99999; give at most 9,995"),
        ("devices = 4", "devices 4", "not a TOML file: "),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(AspError, match=words) as mistake:
        read_cluster(written(tmp_path, GOOD.replace(old, new)))
    assert str(mistake.value).startswith(f"{tmp_path}/cluster.toml: ")


BY_DEVICE = """
device = "H100"
model = "Qwen2.5-7B"
[roofline]
host_seconds = 0.01
[generation]
units = 1
actors = 2
devices_per_actor = 2
context_tokens = 4096
engine = "continuous"
[training]
devices = 4
step_seconds = 7
[lag]
max_lag = 2
"""


def test_numbers_that_are_left_out_follow_from_device_and_model(tmp_path: Path) -> None:
    found = read_cluster(written(tmp_path, BY_DEVICE))
    actor = found.derivation.actor
    assert actor is not None
    slots = actor.kv_tokens // 4096
    unit = GenerationUnit(2, 2, slots)
    training = TrainingUnit(4, 1 / actor.tokens_per_second, 7.0, 0.0, actor.publication_seconds)
    costs = actor.cost_model(slots, 0.01)
    assert found.cluster == Cluster(
        (unit,), training, costs, "continuous", reload_seconds=actor.reload_seconds
    )
    derived, given = found.derivation.in_words()
    for key in ("cost.step_seconds", "cost.kv_seconds", "reload_seconds", "slots"):
        assert f"generation.{key} " in derived
    assert "training.tokens_per_second " in derived and given.endswith("nothing")


def test_given_numbers_stand_in_place_of_derived_ones(tmp_path: Path) -> None:
    text = BY_DEVICE.replace("step_seconds = 7", "step_seconds = 7\ntokens_per_second = 500")
    text = text.replace("[roofline]\nhost_seconds = 0.01", "[generation.cost]\nstep_seconds = 0.3")
    found = read_cluster(written(tmp_path, text))
    assert found.cluster.cost_model.step_seconds == 0.3
    assert found.cluster.cost_model.kv_seconds > 0
    assert found.cluster.training.token_device_seconds == 1 / 500
    derived, given = found.derivation.in_words()
    assert given.endswith("place of it: generation.cost.step_seconds, training.tokens_per_second")
    assert "generation.cost.step_seconds" not in derived and "cost.kv_seconds" in derived


def test_a_model_of_ones_own_is_found_beside_it(tmp_path: Path) -> None:
    config = {
        "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
        "intermediate_size": 128,
    }  # fmt: skip
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config))
    found = read_cluster(written(tmp_path, BY_DEVICE.replace('"Qwen2.5-7B"', '"mine"')))
    assert found.derivation.actor is not None
    assert found.derivation.actor.model.parameters == 2 * (4 + 6) * 64**2 + 2 * 100 * 64
    assert [item.role for item in found.inputs] == ["cluster", "model"]


def test_the_second_sample_names_a_device(sample_data: Path) -> None:
    found = read_cluster(str(sample_data / "cluster-h100.toml"))
    assert found.derivation.actor is not None and found.cluster.generation[0].slots == 64


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"H100"', '"B9000"', 'device is "B9000"; give one of 910B3, A100, H100, H200'),
        ('device = "H100"', "", 'model is "Qwen2.5-7B"; give a device beside it'),
        ('model = "Qwen2.5-7B"', "", "model is null; give one of Qwen3-30B-A3B, "),
        ('"Qwen2.5-7B"', '"nowhere"', 'model is "nowhere"; give one of .* there is no file '),
        ("host_seconds = 0.01", "", r"roofline\.host_seconds is missing; give seconds"),
        ("host_seconds = 0.01", "host = 0.01", r"roofline\.host(_seconds)? is"),
        ("[roofline]", "[roofline]\ncompute = 2", r"roofline\.compute is 2; give a number from"),
        ("[roofline]", '[roofline]\ndtype = "int1"', r'roofline\.dtype is "int1"; give one of'),
        ("context_tokens = 4096", "", r"generation\.slots is missing; give a whole number"),
        ("tokens = 4096", "tokens = 4096\nslots = 9999", r"context_tokens is 4096; give at most"),
        (
            '"Qwen2.5-7B"',
            f'"{"a" * 5000}"',
            r'model is "a+\.\.\.; give one of .* no file .*a\.\.\. of',
        ),
        ('"Qwen2.5-7B"', r'"\u0000"', r'model is "\\u0000"; give one of .* there is no file '),
        ('"Qwen2.5-7B"', '"mine"', r"devices_per_actor is 2; give more: the weights of mine take"),
        ("step_seconds = 7", "", r"training\.step_seconds is missing"),
    ],
)
def test_mistakes_about_devices(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in BY_DEVICE
    large = {
        "num_hidden_layers": 99, "hidden_size": 16384, "num_attention_heads": 64,
        "intermediate_size": 65536, "vocab_size": 100,
    }  # fmt: skip
    (tmp_path / "mine").write_text(json.dumps(large))
    text = BY_DEVICE.replace(old, new)
    with pytest.raises(AspError, match=words) as mistake:
        read_cluster(written(tmp_path, text))
    assert str(mistake.value).startswith(f"{tmp_path}/cluster.toml: ")


def test_a_model_that_is_a_file_of_weights_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "weights", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(AspError, match=r"there is no file .*/weights of at most 16,777,216 bytes"):
        read_cluster(written(tmp_path, BY_DEVICE.replace('"Qwen2.5-7B"', '"weights"')))


def test_a_path_with_a_null_character_is_one_line(tmp_path: Path) -> None:
    start, rest = GOOD.split("[generation.cost]")
    text = rf'{start}cost_model = "\u0000"'
    text += f"\n[training]{rest.split('[training]')[1]}"
    with pytest.raises(AspError, match=r"\\x00': no path, which holds no null character; name"):
        read_cluster(written(tmp_path, text))
