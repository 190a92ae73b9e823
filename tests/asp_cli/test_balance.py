"""`asp balance`: flags that exclude each other, what it says, what it leaves in the footer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Run = Callable[..., Any]
Make = Callable[..., pl.DataFrame]


@pytest.fixture
def minibatches(tmp_path: Path, make_lengths: Make, asp: Run) -> Path:
    """Minibatches of 600 prompts of three domains, with a level of each prompt."""
    lengths = make_lengths(600).with_columns(
        domain=pl.Series(["maths", "code", "games"] * 200), level=pl.int_range(600) % 5
    )
    lengths.write_parquet(tmp_path / "l")
    assert asp("partition", tmp_path / "l", "--batch-size", 8, "-o", tmp_path / "m").code == 0
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--group-size", 8, "--prompts-per-group", 64], "--prompts-per-group stands in place of"),
        (["--policy", "like", "--method", "snake"], "--method stands in place of --policy"),
        (["--policy", "balanced", "--method", "sorted"], "--method stands in place of --policy"),
        (["--policy", "unlike"], "'--policy'"),
    ],
)
def test_flags_that_exclude_each_other_exit_2(
    minibatches: Path, asp: Run, flags: list[object], words: str
) -> None:
    done = asp("balance", minibatches, "-o", minibatches.parent / "g", *flags)
    assert done.code == 2 and words in done.only_line
    assert not (minibatches.parent / "g").exists()


@pytest.mark.parametrize("policy", ["balanced", "like", "isolate"])
@pytest.mark.parametrize("column", ["domain", "level"])
def test_a_policy_says_its_gap_and_bias_and_keeps_them(
    minibatches: Path, asp: Run, policy: str, column: str
) -> None:
    groups = minibatches.parent / "g"
    done = asp("balance", minibatches, "--policy", policy, "--stratify", column, "-o", groups)
    assert done.code == 0, done.stderr
    assert f"gap of policy {policy} " in done.stderr
    assert "random prompts" in done.stderr and f"{column}: " in done.stderr
    told = asp("inspect", groups).stdout.decode()
    for figure in ("gap=", "imbalance_bound=", "mean_longest_bound=", "length_bias_random_mean=",
                   "stratum_bias_largest=", f"policy={policy}", f"stratify={column}"):  # fmt: skip
        assert figure in told
    assert sorted(pl.read_parquet(groups)["prompt_ids"].explode()) == list(range(600))


def test_a_column_that_is_not_there_is_refused_with_those_that_are(
    minibatches: Path, asp: Run
) -> None:
    done = asp("balance", minibatches, "--stratify", "topic", "-o", minibatches.parent / "g")
    assert done.code == 1
    assert f"{minibatches}: no column 'topic' (--stratify)" in done.only_line
    assert "domain" in done.only_line and "level" in done.only_line


def test_one_is_one(tmp_path: Path, make_lengths: Make, asp: Run) -> None:
    make_lengths(3).write_parquet(tmp_path / "l")
    asp("partition", tmp_path / "l", "-o", tmp_path / "m")
    done = asp("balance", tmp_path / "m", "--group-size", 1, "-o", tmp_path / "g")
    assert "1 minibatch in 1 group" in done.stderr and "1 minibatches" not in done.stderr
    quiet = asp("balance", tmp_path / "m", "--quiet", "--force", "-o", tmp_path / "g")
    assert "warning: --group-size 8 is above the 1 minibatch: they make one group" in quiet.stderr
