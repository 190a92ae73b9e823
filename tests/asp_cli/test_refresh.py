"""`asp refresh` as a user meets it, on real rollouts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Asp = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sample_data: Path) -> Path:
    """Real responses, 3 a prompt, to even and to odd prompts, and the prompts' lengths.parquet."""
    from asp_cli.main import main

    made = tmp_path_factory.mktemp("refresh")
    profile = str(made / "profile.parquet")
    prompts, rollouts = (str(sample_data / f"{n}.parquet") for n in ("prompts", "rollouts"))
    assert main(["profile", prompts, "--rollouts", rollouts, "-o", profile]) == 0
    rows = pl.read_parquet(profile).filter(pl.col("prompt_id") < 120)
    log = pl.col("response_tokens").clip(1).log()
    of_prompt = rows.group_by("prompt_hash", maintain_order=True).agg(
        pl.first("prompt_id"), (log.mean() * 0.5 + 2.0).alias("mu")
    )
    of_prompt.sort("prompt_id").with_columns(
        sigma=pl.lit(0.8), sample_sigma=pl.lit(0.6), cap=pl.lit(2048),
        samples_per_prompt=pl.lit(3), note=pl.lit("mine"),
    ).write_parquet(made / "lengths.parquet")  # fmt: skip
    half = rows["prompt_id"] % 2 == 0
    rows.filter(half).write_parquet(made / "even.parquet")
    rows.filter(~half).write_parquet(made / "odd.parquet")
    return made


def test_lengths_are_brought_up_to_date(asp: Asp, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    done = asp("refresh", folder / "lengths.parquet", "--observed", folder / "even.parquet",
               "-o", out)  # fmt: skip
    assert done.code == 0, done.stderr
    assert done.stdout == b""
    for words in ("drift at policy version 0", "90% interval", "prompts blended", "Kendall tau"):
        assert words in done.stderr
    before, after = pl.read_parquet(folder / "lengths.parquet"), pl.read_parquet(out)
    assert after["prompt_id"].to_list() == before["prompt_id"].to_list()
    assert set(after["note"]) == {"mine"}
    is_even = after["prompt_id"] % 2 == 0
    assert set(after.filter(~is_even)["source"]) == {"predicted"}
    assert (after.filter(is_even)["source"].cast(pl.String) != "predicted").mean() > 0.95
    footer = json.loads(pl.read_parquet_metadata(out)["asp"])
    assert [item["role"] for item in footer["inputs"]] == ["lengths", "observed"]
    low, high = footer["results"]["drift"]["offset_interval"]
    assert low < footer["results"]["drift"]["offset"] < high


def test_pipes_give_the_same_bytes(
    asp: Asp, asp_process: Asp, folder: Path, tmp_path: Path
) -> None:
    observed = ("--observed", folder / "even.parquet", "--observed", folder / "odd.parquet")
    out = tmp_path / "out.parquet"
    assert asp("refresh", folder / "lengths.parquet", *observed, "-o", out).code == 0
    lengths = (folder / "lengths.parquet").read_bytes()
    piped = asp_process("refresh", "-", *observed, "-o", "-", stdin=lengths)
    assert piped.stdout == out.read_bytes()


def test_nothing_is_counted_twice(asp: Asp, folder: Path, tmp_path: Path) -> None:
    even, odd = ("--observed", folder / "even.parquet"), ("--observed", folder / "odd.parquet")
    once, twice = tmp_path / "once.parquet", tmp_path / "twice.parquet"
    assert asp("refresh", folder / "lengths.parquet", *even, "-o", once).code == 0
    assert asp("refresh", once, *odd, "-o", twice).code == 0
    for arguments in (
        (once, *even), (twice, *even), (twice, *odd), (folder / "lengths.parquet", *even, *even),
    ):  # fmt: skip
        done = asp("refresh", *arguments, "-o", tmp_path / "no.parquet")
        assert done.code == 1 and "counted already" in done.only_line
        assert not (tmp_path / "no.parquet").exists()


@pytest.mark.parametrize(
    ("lengths", "observed", "flags", "code", "words"),
    [
        ("unhashed", "even", (), 1, "column 'prompt_hash' is empty in 2 of"),
        ("lengths", "foreign", (), 1, "none of its prompts is among those observed"),
        ("lengths", "aborted", (), 1, "no prompt has a whole sample group"),
        ("lengths", "even", ("--group-samples", "9"), 1, "no prompt has a whole sample group"),
        ("lengths", "mixed", (), 1, "of 2 models"),
        ("lengths", "even", ("--profile-model", "x"), 1, "none of them 'x' (--profile-model)"),
        ("lengths", "lengths", (), 1, "not a profile table"),
        ("lengths", "absent", (), 1, "cannot be read"),
        ("lengths", "even", ("--group-samples", "0"), 2, "--group-samples"),
        ("lengths", "even", ("--version-sigma", "-1"), 2, "--version-sigma"),
        ("lengths", "even", ("--observed", "-", "--observed", "-"), 2, "one input only"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    asp: Asp, folder: Path, tmp_path: Path, lengths: str, observed: str,
    flags: tuple[str, ...], code: int, words: str,
) -> None:  # fmt: skip
    table, rows = (pl.read_parquet(folder / f"{n}.parquet") for n in ("lengths", "even"))
    tables = {
        "lengths": table,
        "even": rows,
        "unhashed": table.with_columns(
            prompt_hash=pl.when(pl.col("prompt_id") > 1).then("prompt_hash")
        ),
        "foreign": rows.with_columns(prompt_hash=pl.lit("0") + pl.col("prompt_hash")),
        "aborted": rows.with_columns(finish_reason=pl.lit("abort")),
        "mixed": pl.concat([rows, rows.with_columns(model=pl.lit("other"))]),
    }
    for name, frame in tables.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
    done = asp(
        "refresh", tmp_path / f"{lengths}.parquet", "--observed", tmp_path / f"{observed}.parquet",
        *flags, "-o", tmp_path / "out.parquet",
    )  # fmt: skip
    assert done.code == code
    assert words in done.only_line
    assert not (tmp_path / "out.parquet").exists()


def test_few_and_unfinished_observations_are_said(asp: Asp, folder: Path, tmp_path: Path) -> None:
    rows = pl.read_parquet(folder / "even.parquet")
    first = rows["prompt_id"].unique().sort()[:20].implode()
    few = rows.filter(pl.col("prompt_id").is_in(first))
    is_late = (pl.col("prompt_id") % 4 == 0) & (pl.col("sample_index") == 2)
    few.filter(~is_late).write_parquet(tmp_path / "few.parquet")
    done = asp("refresh", folder / "lengths.parquet", "--observed", tmp_path / "few.parquet",
               "-o", tmp_path / "out.parquet")  # fmt: skip
    assert done.code == 0
    assert "in sample groups that are not whole" in done.stderr
    assert "sample groups are not whole and left out" in done.stderr
    assert "fewer than 30: drift is an offset alone" in done.stderr
