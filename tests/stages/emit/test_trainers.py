"""What each trainer is given: settings that hold together, and a README that can be followed."""

import dataclasses
import json
import subprocess
from pathlib import Path

import polars as pl
import pytest

from stages.emit import readme
from stages.emit.batches import TrainBatch
from stages.emit.remainder import Treated
from stages.emit.syntax import yaml
from stages.emit.trainer import Handover
from stages.emit.trainers import TRAINERS

TRL, VERL, SLIME = TRAINERS["trl"], TRAINERS["verl"], TRAINERS["slime"]


@pytest.fixture
def handover() -> Handover:
    plan = pl.DataFrame(
        {"epoch": [0] * 12, "group_id": [0] * 6 + [1] * 6, "minibatch_id": [0] * 6 + [1] * 6,
         "prompt_id": range(12), "is_repeat": [False] * 12}
    )  # fmt: skip
    return Handover(
        data_file="prompts.parquet",
        prompt_column="prompt",
        has_text_prompts=False,
        num_epochs=1,
        samples_per_prompt=4,
        batch=TrainBatch(6, "groups"),
        treated=Treated(plan, "keep", 0, []),
    )


def test_verl_is_given_one_override_a_line(handover: Handover) -> None:
    assert VERL.render(VERL.settings(handover)).splitlines() == [
        "data.train_files=${ASP_DIR}/prompts.parquet",
        "data.prompt_key=prompt",
        "data.shuffle=False",
        "data.filter_overlong_prompts=False",
        "data.train_max_samples=-1",
        "actor_rollout_ref.rollout.n=4",
        "trainer.total_epochs=1",
        "data.train_batch_size=6",
    ]


@pytest.mark.parametrize(
    ("column", "written"),
    [("a.b-c", "a.b-c"), ("my prompt", "'my prompt'"), ("it's", r"'it\'s'"), ("né", "'né'")],
)
def test_verl_overrides_quote_what_hydra_would_misread(
    handover: Handover, column: str, written: str
) -> None:
    odd = dataclasses.replace(handover, prompt_column=column)
    assert f"data.prompt_key={written}\n" in VERL.render(VERL.settings(odd))


def test_the_command_in_verls_readme_names_the_directory(
    handover: Handover, tmp_path: Path
) -> None:
    (tmp_path / "overrides.txt").write_text(VERL.render(VERL.settings(handover)))
    text = readme.render(VERL, handover)
    (line,) = [line for line in text.splitlines() if line.startswith("python3 -m verl")]
    command = line.replace("python3 -m verl.trainer.main_ppo", "printf '%s\\n'")
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0] == f"data.train_files={tmp_path}/prompts.parquet"
    assert done.stdout.splitlines()[-2:] == ["data.train_batch_size=6", "YOUR_OTHER_OVERRIDES"]


def test_the_arguments_in_slimes_readme_are_words_of_the_shell(
    handover: Handover, tmp_path: Path
) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    odd = dataclasses.replace(handover, prompt_column="it's a question")
    (folder / SLIME.settings_file).write_text(SLIME.render(SLIME.settings(odd)))
    (line,) = [x for x in readme.render(SLIME, odd).splitlines() if x.startswith("eval")]
    command = f'{line}; printf "%s\\n" "${{ASP_ARGS[@]}}"'
    done = subprocess.run(
        ["bash", "-c", command], env={"ASP_DIR": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = done.stdout.splitlines()
    assert words[:4] == ["--prompt-data", f"{folder}/prompts.parquet", "--input-key",
                         "it's a question"]  # fmt: skip
    assert words[-4:] == ["--global-batch-size", "24", "--num-epoch", "1"]


def test_trl_is_given_arguments_of_grpo_config(handover: Handover) -> None:
    assert json.loads(TRL.render(TRL.settings(handover))) == {
        "shuffle_dataset": False,
        "num_generations": 4,
        "generation_batch_size": 24,
        "num_train_epochs": 1,
    }


@pytest.mark.parametrize(
    ("trainer", "change", "concern"),
    [
        ("trl", {"prompt_column": "question"}, "rename it"),
        ("trl", {"samples_per_prompt": 1}, "--samples-per-prompt N"),
        ("verl", {"has_text_prompts": True}, "make it messages"),
    ],
)
def test_concerns_are_raised_where_they_hold(
    handover: Handover, trainer: str, change: dict[str, object], concern: str
) -> None:
    assert TRAINERS[trainer].concerns(handover) == []
    (found,) = TRAINERS[trainer].concerns(dataclasses.replace(handover, **change))  # type: ignore[arg-type]
    assert concern in found


def test_yaml_nests_dotted_keys() -> None:
    written = yaml({"a.b": 1, "a.c.d": "né: x", "e": False, "a.c.f": [None]})
    assert written == 'a:\n  b: 1\n  c:\n    d: "né: x"\n    f: [null]\ne: false\n'


@pytest.mark.parametrize("name", TRAINERS)
def test_a_readme_tells_settings_remainder_and_versions(handover: Handover, name: str) -> None:
    trainer = TRAINERS[name]
    text = readme.render(trainer, handover)
    assert "12 rows, 2 train batches of 6 prompts, 4 samples a prompt" in text
    assert trainer.follows.checked in text
    assert "`keep` touches 0 prompts" in text
    for line in trainer.render(trainer.settings(handover)).splitlines():
        assert f"    {line}\n" in text


def test_the_readme_shows_how_to_rename_a_column_for_trl(handover: Handover) -> None:
    text = readme.render(TRL, dataclasses.replace(handover, prompt_column="question"))
    assert 'dataset = dataset.rename_column("question", "prompt")' in text


@pytest.mark.parametrize("name", ["prompts.parquet", "prompts.jsonl"])
def test_load_dataset_of_the_directory_finds_the_data_file(
    handover: Handover, tmp_path: Path, name: str
) -> None:
    datasets = pytest.importorskip("datasets")
    frame = pl.DataFrame({"prompt": [f"p{i}" for i in range(12)]})
    if name.endswith("parquet"):
        frame.write_parquet(tmp_path / name)
    else:
        frame.write_ndjson(tmp_path / name)
    pl.DataFrame({"minibatch_id": [0]}).write_parquet(tmp_path / "schedule.parquet")
    (tmp_path / "asp.json").write_text("{}")
    text = readme.render(TRL, dataclasses.replace(handover, data_file=name))
    (tmp_path / "README.md").write_text(text)
    loaded = datasets.load_dataset(str(tmp_path), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded["prompt"][:] == frame["prompt"].to_list()
