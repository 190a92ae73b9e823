"""What a user can get wrong: each case is one line, exit 1 or 2, and nothing written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Run = Callable[..., Any]
Make = Callable[..., pl.DataFrame]


@pytest.fixture
def folder(tmp_path: Path, make_lengths: Make) -> Path:
    """A folder of good and bad tables."""
    lengths = make_lengths(8)
    lengths.write_parquet(tmp_path / "good.parquet")
    data = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "truncated.parquet").write_bytes(data[: len(data) // 2])
    (tmp_path / "csv.parquet").write_text("prompt_id,mu\n0,1\n")
    (tmp_path / "empty.parquet").write_bytes(b"")
    lengths.clear().write_parquet(tmp_path / "norows.parquet")
    bad = {
        "dtype": {"mu": pl.lit("long")},
        "nan": {"mu": pl.lit(float("nan"))},
        "inf": {"mu": pl.lit(float("-inf"))},
        "sigma": {"sigma": pl.lit(-1.0)},
        "cap": {"cap": pl.lit(0)},
        "twice": {"prompt_id": pl.lit(3)},
    }
    for name, change in bad.items():
        lengths.with_columns(**change).write_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "directory").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("truncated.parquet", "damaged or cut short"),
        ("csv.parquet", "does not start as one"),
        ("empty.parquet", "it is empty"),
        ("norows.parquet", "has no rows"),
        ("dtype.parquet", "column 'mu' holds String, but a number is needed"),
        ("nan.parquet", "column mu must not be NaN, broken in 8 of 8 rows"),
        ("inf.parquet", "column mu must be finite"),
        ("sigma.parquet", "column sigma must be at least 0"),
        ("cap.parquet", "column cap must be at least 1"),
        ("twice.parquet", "prompt_id must occur once"),
        ("missing.parquet", "No such file or directory"),
        ("directory", "is a directory; a file is needed here"),
    ],
)
def test_a_bad_lengths_file(folder: Path, asp: Run, name: str, words: str) -> None:
    done = asp("partition", folder / name, "-o", folder / "out.parquet")
    assert done.code == 1
    assert done.only_line.startswith(f"asp: error: {folder / name}: ") and words in done.only_line
    assert not (folder / "out.parquet").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--batch-size", "0"], "'--batch-size'"),
        (["--batch-size", "-4"], "'--batch-size'"),
        (["--batch-size", "2.5"], "'--batch-size'"),
        (["--slack", "1.5"], "'--slack'"),
        (["--slack", "-0.1"], "'--slack'"),
        (["--slack", "nan"], "'--slack'"),
        (["--objective", "speed"], "'--objective'"),
        (["--samples-per-prompt", "0"], "'--samples-per-prompt'"),
        (["--no-such-flag"], "--no-such-flag"),
        (["another.parquet"], "another.parquet"),
    ],
)
def test_wrong_flags_exit_2(folder: Path, asp: Run, flags: list[str], words: str) -> None:
    done = asp("partition", folder / "good.parquet", "-o", folder / "out.parquet", *flags)
    assert done.code == 2 and words in done.only_line
    assert not (folder / "out.parquet").exists()


def test_no_output_flag_and_no_command(folder: Path, asp: Run) -> None:
    done = asp("partition", folder / "good.parquet")
    assert done.code == 2 and "--output" in done.only_line
    assert asp("schedule").code == 2


@pytest.mark.parametrize(
    "flags", [["--group-size", "0"], ["--prompts-per-group", "0"], ["--load", "x"]]
)
def test_wrong_balance_flags(folder: Path, asp: Run, flags: list[str]) -> None:
    asp("partition", folder / "good.parquet", "-o", folder / "m")
    done = asp("balance", folder / "m", "-o", folder / "out", *flags)
    assert done.code == 2 and flags[0] in done.only_line


def test_a_table_of_another_kind_is_named(folder: Path, asp: Run) -> None:
    done = asp("balance", folder / "good.parquet", "-o", folder / "out")
    assert done.code == 1
    assert "not a minibatches table: column 'minibatch_id' is missing" in done.only_line


def test_an_output_that_cannot_be_written(folder: Path, asp: Run) -> None:
    done = asp("partition", folder / "good.parquet", "-o", folder / "no" / "out.parquet")
    assert done.code == 1 and "does not exist; create it first" in done.only_line
    done = asp("partition", folder / "good.parquet", "-o", folder / "directory", "--force")
    assert done.code == 1 and "is a directory" in done.only_line


def test_standard_input_that_is_no_table(asp_process: Run) -> None:
    done = asp_process("partition", "-", "-o", "-", stdin=b"hello")
    assert done.code == 1 and done.stdout == b""
    assert "standard input: not a Parquet file" in done.only_line


def test_inspect_of_another_tools_file(folder: Path, asp: Run) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(folder / "other.parquet")
    done = asp("inspect", folder / "other.parquet")
    assert done.code == 1 and "no table of the toolchain; its columns are a" in done.only_line


def test_inspect_says_what_no_longer_holds(folder: Path, asp: Run) -> None:
    done = asp("inspect", folder / "sigma.parquet")
    assert done.code == 1 and "valid    no: " in done.stdout.decode()


def test_a_closed_pipe_is_no_traceback(folder: Path) -> None:
    import subprocess
    import sys

    command = f"{sys.executable} -m asp_cli.main partition {folder / 'good.parquet'} -o - | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("speeds", ["1,x", "0,1", "1,-1", "1,inf", "1,2,3", ""])
def test_wrong_instance_speeds(folder: Path, asp: Run, speeds: str) -> None:
    asp("partition", folder / "good.parquet", "-o", folder / "m")
    flags = ["--instances", 2, "--instance-speeds", speeds]
    done = asp("balance", folder / "m", "-o", folder / "out", *flags)
    assert done.code == 2 and "--instance-speeds" in done.only_line


@pytest.mark.parametrize(
    ("redirection", "words"),
    [
        ("partition - -o out <&-", "standard input: is closed"),
        ("partition good.parquet -q -o - >&-", "standard output: is closed"),
        ("partition good.parquet -q -o - >/dev/full", "standard output: cannot be written"),
        ("inspect good.parquet >/dev/full", "standard output: cannot be written"),
        ("partition good.parquet -o gone/x", "gone/x: the folder"),
    ],
)
def test_standard_streams_that_are_closed_or_full(
    folder: Path, redirection: str, words: str
) -> None:
    import subprocess
    import sys

    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m asp_cli.main {redirection}"],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if "warning: " not in line]
    assert done.returncode == 1 and len(lines) == 1 and words in lines[0]
    assert not (folder / "out").exists()


@pytest.mark.parametrize("flag", ["--batch-size", "--samples-per-prompt"])
def test_numbers_that_no_column_holds(folder: Path, asp: Run, flag: str) -> None:
    done = asp("partition", folder / "good.parquet", "-o", folder / "out", flag, 2**63)
    assert done.code == 2 and flag in done.only_line and "2^63 - 1" in done.only_line


def test_columns_of_one_name_are_called_by_it(folder: Path, asp: Run) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pl.read_parquet(folder / "good.parquet").to_arrow()
    names = [*table.column_names, "mu"]
    pq.write_table(pa.Table.from_arrays([*table.columns, table["mu"]], names=names), folder / "two")
    done = asp("partition", folder / "two", "-o", folder / "out")
    assert done.code == 1 and "'mu' has more than one occurrence" in done.only_line
