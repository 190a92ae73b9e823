"""A sample of each trainer's log: what its reader says, what profile and refresh make of it.

`make_samples.py` made them, verl's by its own code. TRL's is in `test_trainer_logs.py`, where its
GRPOTrainer writes it.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest

from stages.profile.logs import Format
from stages.profile.logs.known import LAYOUTS, detect_layout
from stages.profile.recorded import Selection, read_recording
from stages.tables.errors import AspError
from stages.tables.prompts import prompt_hash

Asp = Callable[..., Any]
SAMPLES = Path(__file__).parent / "samples"
PROMPTS = SAMPLES / "prompts.jsonl"
QUESTIONS = ("What is one plus two?", "Add two and two.", "Add one.")
EXPECTED = {  # prompt_id, sample_index, policy_version, response_tokens, finish_reason
    "verl": [(0, 0, 0, 6), (0, 1, 0, 7), (1, 0, 0, 13), (1, 1, 0, 14), (2, 0, 1, 9), (2, 1, 1, 10)],
    "slime": [(0, 0, 0, 6), (0, 1, 0, 6), (1, 0, 2, 18), (2, 0, 0, 4), (2, 1, 0, 6)],
    "areal": [(0, 0, 0, 1), (0, 1, 0, 2), (1, 0, 0, 11), (1, 1, 0, 12), (2, 0, 1, 21)],
    "nemo-rl": [(0, 0, 0, 6), (0, 1, 0, 6), (1, 0, 0, 18), (1, 1, 0, 18), (2, 0, 2, 9)],
    "roll": [(0, 0, 0, 6), (0, 1, 0, 6), (1, 0, 0, 13), (2, 0, 2, 9)],
    "skyrl": [(0, 0, 3, 4), (0, 1, 3, 5), (1, 0, 3, 5), (2, 0, 3, 6)],
}
FLAGS: dict[str, tuple[object, ...]] = {"roll": ("--rollouts-id-column", "id")}
NEEDS_TOKENIZER = ("verl", "roll", "skyrl")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_profile_of_each_log(asp: Asp, name: str, tiny_model: Path, tmp_path: Path) -> None:
    flags = FLAGS.get(name, ())
    if name in NEEDS_TOKENIZER:
        flags = (*flags, "--tokenizer", tiny_model)
    output = tmp_path / "p.parquet"
    outcome = asp(
        "profile", PROMPTS, "--rollouts", SAMPLES / name, "--from", name, *flags, "-o", output
    )
    assert outcome.code == 0, outcome.stderr
    assert f"read as a log of {name}" in outcome.stderr
    num_left = 2 if name == "verl" else 1
    assert f"{num_left} recorded responses are to prompts that are not in the prompt" in (
        outcome.stderr
    )
    frame = pl.read_parquet(output)
    columns = ("prompt_id", "sample_index", "policy_version", "response_tokens")
    rows = frame.select(columns).rows()
    if name in ("verl", "roll"):  # of text: as long as the tokenizer says, and the end token
        assert frame["tokens_from"].unique().to_list() == ["text"]
        rows = [row[:3] for row in rows]
        assert rows == [row[:3] for row in EXPECTED[name]]
    else:
        assert frame["tokens_from"].unique().to_list() == ["count"]
        assert rows == EXPECTED[name]
    assert frame["domain"].unique().to_list() == (["math_rule"] if name == "roll" else ["sums"])


def test_what_ended_a_response_is_kept_where_the_log_says(asp: Asp, tmp_path: Path) -> None:
    output = tmp_path / "p.parquet"
    flags = ("--from", "slime", "-o", output)
    assert asp("profile", PROMPTS, "--rollouts", SAMPLES / "slime/0.pt", *flags).code == 0
    reasons = pl.read_parquet(output)["finish_reason"].to_list()
    assert reasons == ["stop", "length", "abort", "stop", "stop"]


def test_the_cap_and_the_temperature_of_roll(asp: Asp, tiny_model: Path, tmp_path: Path) -> None:
    output = tmp_path / "p.parquet"
    flags = ("--rollouts-id-column", "id", "--tokenizer", tiny_model, "-o", output)
    assert asp("profile", PROMPTS, "--rollouts", SAMPLES / "roll", *flags).code == 0
    frame = pl.read_parquet(output)
    assert frame.select("max_response_tokens", "temperature").unique().rows() == [(16, 0.9)]
    # The text of "four, as all know" fills the cap of 16, so it has no end token.
    assert frame["finish_reason"].to_list() == [
        "length" if n >= 16 else "stop" for n in frame["response_tokens"]
    ]


@pytest.mark.parametrize("name", ["areal", "nemo-rl", "slime"])
def test_observed_lengths_go_straight_to_refresh(asp: Asp, name: str, tmp_path: Path) -> None:
    hashes = [prompt_hash(f"user: {question}") for question in QUESTIONS]
    columns = {"mu": 2.0, "sigma": 1.0, "sample_sigma": 0.5, "cap": 64}
    prior = {"prompt_id": [0, 1, 2], "prompt_hash": hashes} | columns
    pl.DataFrame(prior).write_parquet(tmp_path / "lengths.parquet")
    observed, refreshed = tmp_path / "observed.parquet", tmp_path / "refreshed.parquet"
    flags = ("--from", name, "--max-response-tokens", 64, "-o", observed)
    assert asp("profile", PROMPTS, "--rollouts", SAMPLES / name, *flags).code == 0
    outcome = asp(
        "refresh", tmp_path / "lengths.parquet", "--observed", observed, "--group-samples", 2,
        "-o", refreshed,
    )  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    table = pl.read_parquet(refreshed)
    blended = table.filter(pl.col("source").cast(pl.String) != "predicted")
    whole = pl.read_parquet(observed).group_by("prompt_id", maintain_order=True).len()
    assert blended["prompt_id"].to_list() == whole.filter(pl.col("len") >= 2)["prompt_id"].to_list()
    assert table["mu"].to_list() != [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("path", "layout"),
    [
        ("verl/1.jsonl", "verl"),
        ("areal/rollout/0/0.jsonl", "areal"),
        ("nemo-rl/train_data_step1.jsonl", "nemo-rl"),
        ("roll/rollout_dump_data.step_0.jsonl", "roll"),
    ],
)
def test_logs_in_text_need_no_name(path: str, layout: str) -> None:
    told = read_recording(str(SAMPLES / path), Selection())
    assert told.layout.name == layout
    named = read_recording(str(SAMPLES / path), Selection(format=layout))  # type: ignore[arg-type]
    assert told.frame.equals(named.frame)


@pytest.mark.parametrize(
    ("columns", "layout"),
    [
        ("prompt response_tokens model", "plain"),
        ("prompt response", "plain"),
        ("input output gts score step", "verl"),
        ("input output gts score step uid", "verl"),
        ("step prompt completion reward advantage", "trl"),
        ("step prompt completion response_tokens", "plain"),
        ("prompt completion", "plain"),
        ("input output prompt response", "plain"),
        ("", "plain"),
    ],
)
def test_the_layout_is_told_from_the_columns(columns: str, layout: str) -> None:
    assert detect_layout(columns.split()).name == layout


def test_every_layout_has_a_name_a_sample_and_a_test() -> None:
    assert {"auto", *LAYOUTS} == set(get_args(Format))
    written_by_a_trainer = {"trl", "asp"}  # in tests/stages/profile and tests/rollout/trainer
    assert {"plain", *written_by_a_trainer, *EXPECTED} == set(LAYOUTS)
    assert all(layout.sample for layout in LAYOUTS.values())


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("slime", b"PK\x03\x04 cut", "is not a file of torch that can be read"),
        ("slime", b"\x80\x02}.", "is not a file of torch that can be read"),
        ("slime", b"\x80\x02.", "is not a file of torch that can be read"),
        ("skyrl", b"\x80", "is not a pickle that can be read"),
        ("skyrl", b"\x80\x02}.", "holds no training batch of SkyRL"),
        ("areal", b'{"task_id": 1}\n', "no column 'seqlen', which a log of areal has"),
        ("areal", b'{"seqlen": "x", "prompt_len": 1}\n', "holds String, but numbers are needed"),
        ("nemo-rl", b'{"token_loss_mask": 1}\n', "line 1: 'token_loss_mask' is no list of 0"),
        ("nemo-rl", b'{"token_loss_mask": [[0, 1]]}\n', "has neither 'content' nor 'token_ids'"),
        ("roll", b'{"id": ["a"]}\n', "line 1: has no list 'responses'"),
        ("roll", b'{"id": [], "responses": ["a"]}\n', "'id' is no list of 1 values, one a"),
    ],
)
def test_what_is_no_such_log_is_told(
    asp: Asp, tmp_path: Path, name: str, content: bytes, line: str
) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    outcome = asp(
        "profile", PROMPTS, "--rollouts", path, "--from", name, "-o", tmp_path / "p.parquet"
    )
    assert outcome.code == 1
    assert outcome.only_line.startswith(f"asp: error: {path}: ")
    assert line in outcome.only_line
    assert not (tmp_path / "p.parquet").exists()


def test_a_pickle_has_to_be_named() -> None:
    for path in ("slime/0.pt", "skyrl/global_step_4_training_input.pkl"):
        with pytest.raises(AspError, match="is a pickle, not Parquet or JSON lines; say whose"):
            read_recording(str(SAMPLES / path), Selection())


def test_a_directory_without_such_files_is_told(tmp_path: Path) -> None:
    with pytest.raises(AspError, match="for the log of a trainer that writes others: --from"):
        read_recording(str(SAMPLES / "slime"), Selection())
    with pytest.raises(AspError, match="holds no file of a log of skyrl"):
        read_recording(str(SAMPLES / "slime"), Selection(format="skyrl"))


def test_token_ids_without_a_tokenizer_are_told(asp: Asp, tmp_path: Path) -> None:
    flags = ("--from", "skyrl", "-o", tmp_path / "p.parquet")
    outcome = asp("profile", PROMPTS, "--rollouts", SAMPLES / "skyrl", *flags)
    assert outcome.code == 1
    assert "holds the prompts as token ids; give the --tokenizer" in outcome.only_line


def test_nemo_rl_without_content_is_joined_by_its_token_ids(
    asp: Asp, tiny_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "train_data_step3.jsonl"
    lines = (SAMPLES / "nemo-rl" / path.name).read_text().splitlines()
    rows = [{k: v for k, v in json.loads(line).items() if k != "content"} for line in lines]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = tmp_path / "p.parquet"
    flags = ("--from", "nemo-rl", "--tokenizer", tiny_model, "-o", output)
    assert asp("profile", PROMPTS, "--rollouts", path, *flags).code == 0
    frame = pl.read_parquet(output)
    assert frame.select("prompt_id", "policy_version", "response_tokens").rows() == [(2, 2, 9)]


def test_a_log_of_text_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from stages.profile.recorded import Selection, read_recording\n"
        f"read_recording({str(SAMPLES / 'skyrl')!r}, Selection(format='skyrl'))\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
