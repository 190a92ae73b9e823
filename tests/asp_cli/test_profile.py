"""`asp profile`: flags, standard input and output, and one line for each mistake."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stages.tables.io import read_table
from stages.tables.schemas import Profile

Asp = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """prompts.jsonl, and rollouts.parquet of two models with odd column names."""
    questions = ["one?", "two?", "three?"]
    lines = (json.dumps({"prompt": q, "uid": f"q{n}"}) + "\n" for n, q in enumerate(questions))
    (tmp_path / "prompts.jsonl").write_text("".join(lines))
    pl.DataFrame(
        {
            "prompt": questions * 2,
            "uid": ["q0", "q1", "q2"] * 2,
            "response_tokens": [10, 20, 30, 40, 50, 60],
            "words": [1, 2, 3, 4, 5, 6],
            "model": ["small"] * 3 + ["large"] * 3,
            "cap": [25] * 6,
            "hot": [0.5] * 6,
            "task": ["sums"] * 6,
        }
    ).write_parquet(tmp_path / "rollouts.parquet")
    return tmp_path


@pytest.fixture
def profile(asp: Asp, folder: Path) -> Asp:
    """`profile("--rollouts-model", "small")`: of the files above, to profile.parquet."""

    def run(*flags: object) -> Any:
        return asp(
            "profile", folder / "prompts.jsonl", "--rollouts", folder / "rollouts.parquet",
            "-o", folder / "profile.parquet", *flags,
        )  # fmt: skip

    return run


def test_columns_under_other_names(profile: Asp, folder: Path) -> None:
    outcome = profile(
        "--rollouts-model", "small", "--rollouts-max-tokens-column", "cap",
        "--rollouts-temperature-column", "hot", "--rollouts-domain-column", "task",
    )  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    assert "3 responses to 3 of 3 prompts, 33.3% of them at the cap" in outcome.stderr
    table = read_table(str(folder / "profile.parquet"), Profile)
    columns = ["prompt", "response_tokens", "finish_reason", "max_response_tokens"]
    assert table.frame.select(columns).rows() == [
        ("one?", 10, "stop", 25), ("two?", 20, "stop", 25), ("three?", 30, "length", 25),
    ]  # fmt: skip
    assert table.frame["temperature"].unique().to_list() == [0.5]
    assert table.frame["domain"].unique().to_list() == ["sums"]
    assert table.provenance is not None
    assert table.provenance.config["model"] == "small"
    assert table.provenance.results["num_recorded"] == 6
    assert [i.role for i in table.provenance.inputs] == ["prompts", "rollouts"]
    assert str(folder) not in table.provenance.to_json()
    assert ".parquet" not in table.provenance.to_json()


def test_flags_fill_what_the_file_does_not_say(profile: Asp, folder: Path) -> None:
    flags = ("--rollouts-model", "large", "--max-response-tokens", 50, "--temperature", 0.7)
    assert profile(*flags).code == 0
    frame = pl.read_parquet(folder / "profile.parquet")
    assert frame["finish_reason"].to_list() == ["stop", "length", "length"]
    assert frame["temperature"].unique().to_list() == [0.7]


def test_an_id_of_both_files(profile: Asp, folder: Path) -> None:
    flags = ("--rollouts-model", "small", "--rollouts-prompt-column", "task")
    assert profile(*flags).code == 1
    assert profile(*flags, "--rollouts-id-column", "uid").code == 0
    assert pl.read_parquet(folder / "profile.parquet")["response_tokens"].to_list() == [10, 20, 30]


def test_standard_input_and_output(asp_process: Asp, folder: Path) -> None:
    flags = ("--rollouts-model", "small", "-o", "-", "-q", "--max-response-tokens", 99)
    arguments = ("profile", folder / "prompts.jsonl", "--rollouts", folder / "rollouts.parquet")
    from_files = asp_process(*arguments, *flags)
    rollouts = (folder / "rollouts.parquet").read_bytes()
    piped = asp_process(*arguments[:3], "-", *flags, stdin=rollouts)
    assert (from_files.stderr, piped.stderr) == ("", "")
    assert pl.read_parquet(from_files.stdout).height == 3
    assert from_files.stdout == piped.stdout


def test_an_existing_output_needs_force(profile: Asp, folder: Path) -> None:
    (folder / "profile.parquet").write_text("mine")
    outcome = profile("--rollouts-model", "small")
    assert (outcome.code, "exists already" in outcome.only_line) == (1, True)
    assert (folder / "profile.parquet").read_text() == "mine"
    assert profile("--rollouts-model", "small", "--force").code == 0


@pytest.mark.parametrize(
    ("flags", "code", "line"),
    [
        ("", 1, "holds responses of 2 models: large, small; choose one: --rollouts-model NAME"),
        ("--rollouts-model tiny", 1, "no response of --rollouts-model 'tiny'; it has those of"),
        ("--rollouts-model small --rollouts-tokens-column n", 1, "no column 'n' (--rollouts-tok"),
        ("--rollouts-model small --rollouts-prompt-column task", 1, "none of its 3 responses"),
        ("--rollouts-model small --rollouts-tokens-column hot", 1, "0.5, 0.5, 0.5; mend"),
        ("--rollouts-model small --rollouts-tokens-column task", 1, "holds String, but numbers"),
        ("--rollouts-model small --rollouts-id-column model", 1, "which both files need"),
        ("--rollouts-model small --prompt-column text", 1, "no column 'text' (--prompt-column)"),
        ("--from verl", 1, "no column 'input' with the prompt (verl layout)"),
        ("--from trainer", 2, "'trainer' is not one of"),
        ("--model here", 2, "give one source: --rollouts PATH, or --model DIR_OR_NAME"),
        ("--num-prompts 0", 2, "--num-prompts"),
        ("--temperature inf", 2, "must be a finite number"),
        ("--engine vllm", 2, "--engine is of no use with --rollouts"),
        ("--batch-size 4", 2, "--batch-size is of no use with --rollouts"),
        ("--endpoint http://h", 2, "--endpoint is of no use with --rollouts"),
        ("--concurrency 4", 2, "--concurrency is of no use with --rollouts"),
        ("--rollouts-model small --tokenizer ./nowhere", 1, "--tokenizer ./nowhere: no such dir"),
    ],
)
def test_mistakes_are_one_line(
    profile: Asp, folder: Path, flags: str, code: int, line: str
) -> None:
    before = sorted(folder.iterdir())
    outcome = profile(*flags.split())
    assert outcome.code == code
    assert line in outcome.only_line
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("", "give one source"),
        ("--model -", "--model is a directory, which `-` cannot stand for"),
        ("--model m --from verl", "--from is of no use with --model"),
        ("--model m --rollouts-model x", "--rollouts-model is of no use with --model"),
        ("--model m --tokenizer t", "--tokenizer is of no use with --model without --endpoint"),
        ("--model m --seed-requests", "--seed-requests is of no use with --model without"),
        ("--endpoint http://h:1", "give one source"),
        ("--model m --endpoint h:1", "--endpoint h:1: is not http://HOST:PORT or https://"),
        ("--model m --endpoint http://[::1", "--endpoint http://[::1: is not http://HOST:PORT"),
        ("--model m --endpoint http://h:99999", "--endpoint http://h:99999: is not http://HOST"),
        ("--model m --endpoint http://u:p@h", "leave the password out"),
        ("--model m --endpoint http://h --batch-size 2", "--batch-size is of no use with --endp"),
        ("--model m --endpoint http://h --engine vllm", "--engine is of no use with --endpoint"),
        ("--model m --engine sglang", "'sglang' is not one of"),
        ("--model m --endpoint http://h --samples-per-request 2", "needs --tokenizer, for a serv"),
        ("--model m --endpoint http://h --request-timeout inf", "must be a finite number"),
        ("--model m --rollouts-max-tokens-column x", "--rollouts-max-tokens-column is of no use"),
    ],
)
def test_wrong_flags_without_rollouts(asp: Asp, folder: Path, flags: str, line: str) -> None:
    outcome = asp("profile", folder / "prompts.jsonl", "-o", folder / "p", *flags.split())
    assert outcome.code == 2
    assert line in outcome.only_line
    assert not (folder / "p").exists()


def test_two_inputs_from_standard_input(asp: Asp, folder: Path) -> None:
    outcome = asp("profile", "-", "--rollouts", "-", "-o", folder / "p")
    assert (outcome.code, "`-` can stand for one input only" in outcome.only_line) == (2, True)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"prompt,response_tokens\na,1\n", "not a Parquet file: it does not start as one"),
        (b"", "not a Parquet file: it is empty"),
        (b'{"prompt": "one?", "response_tokens": 3}\n{"prompt": "on', "line 2 is not JSON"),
        (b'{"prompt": "one?", "response_tokens": NaN}\n', "first in row 0 (from 0): NaN"),
        (b'{"prompt": "one?", "response_tokens": -4}\n', "first in row 0 (from 0): -4"),
        (b'{"prompt": "one?", "response_tokens": null}\n', "first in row 0 (from 0): null"),
        (b'{"prompt": "one?", "response": "a b"}\n', "give --tokenizer DIR_OR_NAME"),
        (b'{"prompt": "one?"}\n', "no column with the length"),
        (b'{"response_tokens": 3}\n', "no column 'prompt' with the prompt"),
    ],
)
def test_bad_files_are_one_line(asp: Asp, folder: Path, content: bytes, line: str) -> None:
    rollouts = folder / "bad.jsonl"
    rollouts.write_bytes(content)
    flags = ("--rollouts", rollouts, "-o", folder / "p.parquet")
    outcome = asp("profile", folder / "prompts.jsonl", *flags)
    assert outcome.code == 1
    assert outcome.only_line.startswith(f"asp: error: {rollouts}: ")
    assert line in outcome.only_line
    assert not (folder / "p.parquet").exists()


def test_counted_rollouts_need_no_torch(folder: Path) -> None:
    arguments = [
        "profile", str(folder / "prompts.jsonl"), "--rollouts", str(folder / "rollouts.parquet"),
        "--rollouts-model", "small", "-o", str(folder / "p.parquet"),
    ]  # fmt: skip
    code = (
        "import sys\nfrom asp_cli.main import main\n"
        f"assert main({arguments!r}) == 0\n"
        "print(sorted({'torch', 'transformers', 'sklearn', 'ortools'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
