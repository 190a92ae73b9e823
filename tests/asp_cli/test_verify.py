"""`asp verify` as a user meets it: a log in verl's layout beside what emit wrote."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stages.tables.prompts import prompt_hash

Asp = Callable[..., Any]
NUM_PROMPTS, TRAIN_BATCH, SAMPLES = 12, 4, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lengths that differ, their groups of one train batch each, and what emit makes of them."""
    from asp_cli.main import main

    made = tmp_path_factory.mktemp("verify")
    prompts = [f"prompt {n}" for n in range(NUM_PROMPTS)]
    pl.DataFrame({"prompt": prompts, "id": [f"p{n}" for n in range(NUM_PROMPTS)]}).write_parquet(
        made / "prompts.parquet"
    )
    pl.DataFrame(
        {
            "prompt_id": range(NUM_PROMPTS),
            "mu": [3 + (n * 7 % NUM_PROMPTS) / 4 for n in range(NUM_PROMPTS)],
            "sigma": 0.5, "cap": 2048, "prompt_hash": [prompt_hash(text) for text in prompts],
        }
    ).write_parquet(made / "lengths.parquet")  # fmt: skip
    paths = {name: str(made / f"{name}.parquet") for name in ("lengths", "cut", "groups")}
    cut = ["--batch-size", "2", "--slack", "0", "--samples-per-prompt", str(SAMPLES)]
    deal = ["--prompts-per-group", str(TRAIN_BATCH)]
    handover = ["--prompts", str(made / "prompts.parquet"), "--for", "verl"]
    assert main(["partition", paths["lengths"], *cut, "-o", paths["cut"]]) == 0
    assert main(["balance", paths["cut"], *deal, "-o", paths["groups"]]) == 0
    assert main(["emit", paths["groups"], *handover, "-o", str(made / "for_verl")]) == 0
    return made


def write_log(folder: Path, into: Path, order: Sequence[int]) -> Path:
    """The log of a trainer that takes rows of the emitted file in this order."""
    rows = pl.read_parquet(folder / "for_verl" / "prompts.parquet").to_dicts()
    into.mkdir()
    for step, start in enumerate(range(0, len(order) - TRAIN_BATCH + 1, TRAIN_BATCH), start=1):
        batch = [rows[n] for n in order[start : start + TRAIN_BATCH]]
        lines = [
            json.dumps(
                {"input": row["prompt"], "output": "x", "gts": None, "score": 0.0, "step": step}
                | {"id": row["id"], "response_tokens": 10 + 3 * sample}
            )
            for row in batch
            for sample in range(SAMPLES)
        ]
        (into / f"{step}.jsonl").write_text("\n".join(lines) + "\n")
    return into


def test_a_followed_schedule_is_told_and_tabled(asp: Asp, folder: Path, tmp_path: Path) -> None:
    logged = write_log(folder, tmp_path / "log", range(NUM_PROMPTS))
    table = tmp_path / "verified.parquet"
    done = asp("verify", folder / "for_verl", "--rollouts", logged, "--from", "verl", "-o", table)
    assert done.code == 0, done.stderr
    assert done.stdout.decode().startswith("followed: ")
    assert "24 responses of 3 steps (1 to 3); 3 of these 3 are as planned" in done.stdout.decode()
    rows = pl.read_parquet(table)
    assert rows["num_kept"].to_list() == [TRAIN_BATCH] * 3
    assert rows["planned_tokens"].to_list() == [TRAIN_BATCH * 23.0] * 3
    assert json.loads(pl.read_parquet_metadata(table)["asp"])["results"]["verdict"] == "followed"
    assert "3 of 3 as planned" in asp("inspect", table).stdout.decode()


def test_the_schedule_file_with_the_prompts_says_the_same(
    asp: Asp, folder: Path, tmp_path: Path
) -> None:
    logged = write_log(folder, tmp_path / "log", range(NUM_PROMPTS))
    prompts = folder / "prompts.parquet"
    of_directory = asp("verify", folder / "for_verl", "--rollouts", logged)
    for more in ([], ["--rollouts-id-column", "id"]):
        of_groups = asp("verify", folder / "groups.parquet", "--prompts", prompts,
                        "--rollouts", logged, *more)  # fmt: skip
        assert of_groups.code == 0, of_groups.stderr
        assert of_groups.stdout == of_directory.stdout


def test_a_dropped_row_is_named_and_so_are_the_settings(
    asp: Asp, folder: Path, tmp_path: Path
) -> None:
    order = [n for n in range(NUM_PROMPTS) if n != 5]
    done = asp(
        "verify", folder / "for_verl", "--rollouts", write_log(folder, tmp_path / "l", order)
    )
    assert done.code == 1 and done.stderr == ""
    words = done.stdout.decode()
    assert words.startswith("not followed: the prompts come in the planned order")
    assert "first at step 2: of 4 planned prompts 3 are there, and 1 others" in words
    assert "first row 5 (from 0) of" in words and "data.shuffle=False" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["groups.parquet", "--rollouts", "log"], "give --prompts FILE"),
        (["log", "--rollouts", "log"], "a directory without asp.json"),
        (["for_verl", "--rollouts", "profile.jsonl"], "at which training step"),
        (["for_verl", "--rollouts", "others.jsonl"], "is it the log of this training?"),
        (["for_verl", "--rollouts", "nothing"], "No such file"),
        (["nothing", "--rollouts", "log"], "nothing: cannot be read: No such file"),
        (["for_verl", "--prompts", "log", "--rollouts", "log"], "leave out --prompts"),
    ],
)
def test_mistakes_are_told_in_one_line(
    asp: Asp, folder: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    write_log(folder, tmp_path / "log", range(4))
    row = {"prompt": "prompt 1", "response_tokens": 3}
    (tmp_path / "profile.jsonl").write_text(json.dumps(row) + "\n")
    other = {"input": "?", "output": "x", "score": 0, "step": 1}
    (tmp_path / "others.jsonl").write_text(json.dumps(other) + "\n")
    places = {name: folder / name for name in ("groups.parquet", "for_verl")}
    paths = [str(a if a.startswith("--") else places.get(a, tmp_path / a)) for a in arguments]
    done = asp("verify", *paths, "-o", tmp_path / "out.parquet")
    assert done.code == 1
    assert words in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out.parquet").exists()


def test_a_sidecar_that_is_none_is_refused(asp: Asp, folder: Path, tmp_path: Path) -> None:
    logged = write_log(folder, tmp_path / "log", range(4))
    for text, words in (
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "not of version 1"),
        ('{"version": 1}', "lacks num_rows"),
    ):
        (tmp_path / "asp.json").write_text(text)
        done = asp("verify", tmp_path, "--rollouts", logged)
        assert done.code == 1 and words in done.only_line


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("train_batch_size", "4", 'train_batch_size is "4"'),
        ("train_batch_size", 0, "train_batch_size is 0"),
        ("num_train_batches", 10**9, "1000000000 train batches of 4 do not fit in 12 rows"),
        ("num_rows", 11.0, "num_rows is 11.0"),
        ("data_file", None, "data_file is null"),
        ("minibatches", None, "minibatches is null"),
        ("minibatches", [{"epoch": 0}], 'minibatches[0] is {"epoch": 0}'),
        ("minibatches", [{"epoch": 0, "minibatch_id": 0, "first_row": 0, "num_rows": 2}] * 2,
         "minibatches[1] is"),
        ("row_prompt_ids", [0], "are not 12 row numbers"),
        ("inputs", {}, "inputs.schedule is null"),
        ("inputs", {"schedule": "0"}, "is not the schedule that"),
        ("settings", [1], "settings is [1]"),
    ],
)  # fmt: skip
def test_a_damaged_sidecar_is_refused_by_its_key(
    asp: Asp, folder: Path, tmp_path: Path, key: str, value: object, words: str
) -> None:
    shutil.copytree(folder / "for_verl", tmp_path / "for_verl")
    sidecar = tmp_path / "for_verl" / "asp.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {key: value}))
    logged = write_log(folder, tmp_path / "log", range(4))
    done = asp("verify", tmp_path / "for_verl", "--rollouts", logged)
    assert done.code == 1 and words in done.only_line and "`asp emit`" in done.only_line


def test_rows_that_were_edited_are_not_blamed_on_the_trainer(
    asp: Asp, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "for_verl", tmp_path / "for_verl")
    rows = pl.read_parquet(folder / "for_verl" / "prompts.parquet")
    rows.reverse().write_parquet(tmp_path / "for_verl" / "prompts.parquet")
    logged = write_log(folder, tmp_path / "log", range(NUM_PROMPTS))
    done = asp("verify", tmp_path / "for_verl", "--rollouts", logged)
    assert done.code == 1
    assert "12 of 12 prompts are not those that were scheduled, first row 0" in done.only_line
