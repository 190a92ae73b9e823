"""The transformer backend through `asp train-predictor` and `asp predict`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stages.predictor.directory import load_predictor
from stages.predictor.observations import observe
from stages.predictor.train import TrainConfig, TransformerOptions, run, train
from stages.predictor.transformer.predictor import FrozenReader, TunedReader
from stages.tables.errors import AspError
from stages.tables.io import conform, read_table, write_table
from stages.tables.provenance import Provenance
from stages.tables.schemas import Heldout, Profile

Asp = Callable[..., object]
MakeProfile = Callable[..., pl.DataFrame]


@pytest.fixture(scope="session")
def profile(make_profile: MakeProfile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of enough prompts to tune on."""
    path = tmp_path_factory.mktemp("transformer") / "profile.parquet"
    write_table(make_profile(220), Profile, str(path), Provenance("test", "profile/1"), False)
    return path


def config(base: Path, max_epochs: int) -> TrainConfig:
    return TrainConfig(
        "transformer", folds=3, transformer=TransformerOptions(str(base), 64, max_epochs)
    )


@pytest.fixture(scope="session")
def frozen(profile: Path, causal_path: Path) -> Path:
    path = profile.with_name("frozen")
    run(str(profile), str(path), config(causal_path, 0))
    return path


@pytest.fixture(scope="session")
def tuned(profile: Path, encoder_path: Path) -> Path:
    path = profile.with_name("tuned")
    run(str(profile), str(path), config(encoder_path, 2))
    return path


def test_frozen_states_learn_a_known_law(frozen: Path) -> None:
    stored = load_predictor(str(frozen))
    assert isinstance(stored.predictor.reader, FrozenReader)
    assert stored.scores is not None
    assert stored.scores.num_prompts == 220
    assert (stored.scores.predictor["mean"].tau or 0) > 0.65  # the best order has about 0.75
    assert stored.scores.coverage_90 == pytest.approx(0.9, abs=0.05)
    assert not Path(f"{frozen}.journal").exists()


def test_what_wins_on_held_out_prompts_is_kept(tuned: Path) -> None:
    """Whichever it is: a tuned model is judged on the one fold that it has not seen."""
    stored = load_predictor(str(tuned))
    held_out = read_table(str(tuned / "heldout.parquet"), Heldout).frame
    assert stored.scores is not None
    if isinstance(stored.predictor.reader, TunedReader):
        assert set(held_out["fold"]) == {0}
        assert stored.scores.num_prompts == len(held_out) < 220
    else:
        assert set(held_out["fold"]) == {0, 1, 2}


@pytest.mark.parametrize("kind", ["frozen", "tuned"])
def test_a_stored_predictor_says_what_it_said(
    kind: str, profile: Path, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(kind)
    base = request.getfixturevalue({"frozen": "causal_path", "tuned": "encoder_path"}[kind])
    evidence = observe(read_table(str(profile), Profile).frame, "p")
    made = train(evidence, config(base, 0 if kind == "frozen" else 2)).predictor
    texts = ["Explain how to add 5 and 6.", "?", "Prove that 7 is prime.", ""]
    told = load_predictor(str(path)).predictor.predict(texts)
    for one, other in zip(made.predict(texts), told, strict=True):
        assert np.array_equal(one, other, equal_nan=True)


def test_equal_inputs_give_equal_bytes(
    profile: Path, tuned: Path, encoder_path: Path, tmp_path: Path
) -> None:
    run(str(profile), str(tmp_path / "again"), config(encoder_path, 2))
    for file in tuned.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name


def test_the_provenance_holds_no_path(frozen: Path) -> None:
    provenance = json.loads((frozen / "predictor.json").read_text())["provenance"]
    assert provenance["config"]["transformer"]["base_model"] == "causal"


def test_a_base_model_that_moved_is_found_by_the_flag(
    asp: Asp, frozen: Path, causal_path: Path, encoder_path: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(frozen, moved)
    manifest = (moved / "predictor.json").read_text()
    (moved / "predictor.json").write_text(manifest.replace(str(causal_path), "./gone"))
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Add 1 and 2"}\n')
    call = ("predict", prompts, "--predictor", moved, "-o", tmp_path / "lengths.parquet")
    gone = asp(*call)
    assert (gone.code, "./gone: no such directory" in gone.only_line) == (1, True)
    other = asp(*call, "--base-model", encoder_path)
    assert "is not the base model that the predictor was trained on" in other.stderr
    assert asp(*call, "--base-model", causal_path).code == 0


def test_an_embedded_predictor_has_no_base_model(predictor_path: Path) -> None:
    with pytest.raises(AspError, match="is an embedded predictor"):
        load_predictor(str(predictor_path), "anything")


def test_prompts_that_are_one_text_are_not_held_out(
    make_profile: MakeProfile, causal_path: Path
) -> None:
    one = make_profile(3).with_columns(prompt=pl.lit("?"))
    training = train(observe(conform(one, Profile, "p"), "p"), config(causal_path, 1))
    assert training.held_out is None
    assert (training.predictor.predict(["x"]).sigma_p > 0.85).all()


def test_too_few_prompts_are_not_tuned_on(
    make_profile: MakeProfile, causal_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few = observe(conform(make_profile(30), Profile, "p"), "p")
    assert isinstance(train(few, config(causal_path, 3)).predictor.reader, FrozenReader)
    assert "too few to tune the base model" in caplog.text


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--base-model", "x"), 2, "--base-model needs --backend transformer"),
        (("--backend", "transformer", "--base-model", "./absent"), 1, "no such directory"),
        (("--backend", "transformer", "--max-prompt-tokens", "1"), 2, "--max-prompt-tokens"),
        (("--backend", "transformer", "--max-epochs", "-1"), 2, "--max-epochs"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(
    asp: Asp, profile: Path, tmp_path: Path, flags: tuple[str, ...], code: int, message: str
) -> None:
    done = asp("train-predictor", profile, "-o", tmp_path / "out", *flags)
    assert (done.code, message in done.stderr) == (code, True)
    assert list(tmp_path.iterdir()) == []


def test_on_a_machine_without_a_network_the_way_out_is_one_line(
    profile: Path, tmp_path: Path
) -> None:
    call = [
        sys.executable, "-m", "asp_cli.main", "train-predictor", profile, "--quiet",
        "--backend", "transformer", "-o", tmp_path / "out",
    ]  # fmt: skip
    hub = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    done = subprocess.run(call, env=os.environ | hub, capture_output=True, text=True, check=False)
    (line,) = done.stderr.strip().splitlines()
    assert done.returncode == 1
    assert "--base-model Qwen/Qwen2.5-1.5B: cannot be loaded" in line
    assert "without a network, give --base-model a directory that holds the model" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_two_processes_find_what_one_finds(
    profile: Path, tuned: Path, encoder_path: Path, tmp_path: Path
) -> None:
    pytest.importorskip("accelerate")
    call = [
        sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2",
        "-m", "asp_cli.main", "train-predictor", profile, "-o", tmp_path / "two", "--folds", "3",
        "--backend", "transformer", "--base-model", encoder_path,
        "--max-prompt-tokens", "64", "--max-epochs", "2",
    ]  # fmt: skip
    on_cpu = {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(call, env=os.environ | on_cpu, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode().count("held-out tau: embedded") == 1
    assert sorted(f.name for f in tuned.iterdir()) == sorted(
        f.name for f in (tmp_path / "two").iterdir()
    )
    one, two = (json.loads((f / "predictor.json").read_text()) for f in (tuned, tmp_path / "two"))
    assert two["transformer"]["share"] == pytest.approx(one["transformer"]["share"], abs=0.2)
