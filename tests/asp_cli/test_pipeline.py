"""The stages chained: by files, by pipes, with a stage swapped for ten lines of polars."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

Run = Callable[..., Any]
Make = Callable[..., pl.DataFrame]


@pytest.fixture(scope="session")
def predictor(sample_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A predictor trained on the sample rollouts of 400 prompts."""
    from asp_cli.main import main

    folder = tmp_path_factory.mktemp("predictor")
    profile, output = folder / "profile.parquet", folder / "predictor"
    prompts, rollouts = sample_data / "profile_prompts.parquet", sample_data / "rollouts.parquet"
    flags = ["--rollouts", str(rollouts), "--num-prompts", "400"]
    assert main(["profile", str(prompts), *flags, "-o", str(profile)]) == 0
    assert main(["train-predictor", str(profile), "-o", str(output)]) == 0
    return output


def test_a_pipe_gives_the_same_bytes_as_files_between(
    predictor: Path, sample_data: Path, tmp_path: Path, asp: Run, asp_process: Run
) -> None:
    prompts = sample_data / "prompts.parquet"
    paths = [tmp_path / name for name in ("lengths", "minibatches", "groups", "schedule")]
    assert asp("predict", prompts, "--predictor", predictor, "-o", paths[0]).code == 0
    assert asp("partition", paths[0], "-o", paths[1]).code == 0
    assert asp("balance", paths[1], "-o", paths[2]).code == 0
    assert asp("emit", paths[2], "-o", paths[3]).code == 0
    piped = asp_process("predict", prompts, "--predictor", predictor, "-o", "-").stdout
    assert piped == paths[0].read_bytes()
    for command, path in zip(("partition", "balance", "emit"), paths[1:], strict=True):
        piped = asp_process(command, "-", "-o", "-", stdin=piped).stdout
        assert piped == path.read_bytes()
    schedule = pl.read_parquet(paths[3])
    assert sorted(schedule["prompt_ids"].explode().to_list()) == list(range(2048))


def test_the_chain_of_inputs_is_told(
    predictor: Path, sample_data: Path, tmp_path: Path, asp: Run
) -> None:
    lengths, groups = tmp_path / "lengths", tmp_path / "groups"
    asp("predict", sample_data / "prompts.parquet", "--predictor", predictor, "-o", lengths)
    asp("partition", lengths, "-o", tmp_path / "m")
    asp("balance", tmp_path / "m", "-o", groups)
    told = asp("inspect", groups).stdout.decode()
    for stage in ("balance:", "partition:", "predict:", "train-predictor:", "profile:"):
        assert stage in told
    assert str(tmp_path) not in told.replace(str(groups), "")


@pytest.mark.parametrize("integer", [pl.UInt8, pl.Int16, pl.UInt32, pl.Int64, pl.Float32])
@pytest.mark.parametrize("floating", [pl.Float32, pl.Float64, pl.Int32])
def test_lengths_written_by_hand_run_through(
    integer: Any, floating: Any, tmp_path: Path, make_lengths: Make, asp: Run
) -> None:
    lengths = make_lengths(100, cap=255).with_columns(
        pl.col("prompt_id", "cap").cast(integer), pl.col("mu").cast(floating)
    )
    lengths.write_parquet(tmp_path / "l")
    assert asp("partition", tmp_path / "l", "--batch-size", 8, "-o", tmp_path / "m").code == 0
    assert asp("balance", tmp_path / "m", "--prompts-per-group", 16, "-o", tmp_path / "g").code == 0
    assert asp("emit", tmp_path / "g", "-o", tmp_path / "s").code == 0
    ids = pl.read_parquet(tmp_path / "s")["prompt_ids"].explode()
    assert sorted(ids.to_list()) == list(range(100))


def test_tables_edited_by_hand_are_accepted(tmp_path: Path, make_lengths: Make, asp: Run) -> None:
    """polars drops the footer key and the user adds a column and rounds another."""
    make_lengths(200).write_parquet(tmp_path / "l")
    asp("partition", tmp_path / "l", "-o", tmp_path / "m")
    edited = pl.read_parquet(tmp_path / "m").with_columns(
        pl.col("predicted_seconds").round(1), owner=pl.lit("me")
    )
    edited.drop("kind", "round", "num_prompts", "token_budget").write_parquet(tmp_path / "m2")
    assert asp("balance", tmp_path / "m2", "-o", tmp_path / "g").code == 0
    groups = pl.read_parquet(tmp_path / "g")
    assert groups["owner"].to_list() == ["me"] * len(groups)
    assert asp("inspect", tmp_path / "g").stdout.decode().splitlines()[-1].split() == [
        "valid",
        "yes",
    ]


def test_the_same_flags_give_the_same_bytes(tmp_path: Path, make_lengths: Make, asp: Run) -> None:
    make_lengths(300).write_parquet(tmp_path / "l")
    for name in ("1", "2"):
        asp("partition", tmp_path / "l", "-o", tmp_path / f"m{name}")
        asp("balance", tmp_path / f"m{name}", "-o", tmp_path / f"g{name}")
    assert (tmp_path / "g1").read_bytes() == (tmp_path / "g2").read_bytes()


def test_a_group_size_above_the_minibatches_warns_and_gives_one(
    tmp_path: Path, make_lengths: Make, asp: Run
) -> None:
    make_lengths(100).write_parquet(tmp_path / "l")
    asp("partition", tmp_path / "l", "-o", tmp_path / "m")
    done = asp("balance", tmp_path / "m", "--group-size", 999, "-o", tmp_path / "g")
    assert done.code == 0 and "warning: --group-size 999 is above the 3 minibatches" in done.stderr
    assert pl.read_parquet(tmp_path / "g")["group_id"].n_unique() == 1


def test_sizes_that_admit_no_partition_warn(tmp_path: Path, make_lengths: Make, asp: Run) -> None:
    make_lengths(41).write_parquet(tmp_path / "l")
    done = asp("partition", tmp_path / "l", "-o", tmp_path / "m")
    assert done.code == 0 and "cannot be cut into minibatches of 32 +- 25%" in done.stderr
    assert pl.read_parquet(tmp_path / "m")["num_prompts"].sort().to_list() == [20, 21]


def test_quiet_says_nothing_but_warnings(tmp_path: Path, make_lengths: Make, asp: Run) -> None:
    make_lengths(96).write_parquet(tmp_path / "l")
    assert asp("partition", tmp_path / "l", "-o", tmp_path / "m", "--quiet").stderr == ""
    assert asp("partition", tmp_path / "l", "-o", tmp_path / "m2").stderr.startswith(
        "asp: 96 prompts"
    )


def test_report_on_lengths_known_beforehand(tmp_path: Path, asp: Run) -> None:
    """The prediction is right and without spread, so the schedule equals the perfect one."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 1000, 512)
    pl.DataFrame(
        {"prompt_id": range(512), "mu": np.log(tokens), "sigma": 0.0, "cap": 2048}
    ).write_parquet(tmp_path / "l")
    asp("partition", tmp_path / "l", "--batch-size", 16, "-o", tmp_path / "m")
    asp("balance", tmp_path / "m", "-o", tmp_path / "g")
    pl.DataFrame(
        {"prompt_id": range(512), "prompt_hash": [str(i) for i in range(512)], "prompt": "x",
         "model": "m", "sample_index": 0, "response_tokens": tokens, "finish_reason": "stop"}
    ).write_parquet(tmp_path / "p")  # fmt: skip
    done = asp("report", tmp_path / "g", "--lengths", tmp_path / "l", "--profile", tmp_path / "p")
    assert done.code == 0, done.stderr
    utilization, imbalance, _ = done.stdout.decode().splitlines()[1:4]
    cells = utilization.removesuffix(", a gain").split()
    assert cells[-2] == cells[-3]  # schedule and perfect
    assert float(cells[-1].rstrip("x")) > 1.3
    assert "no gain" not in utilization and "no gain" not in imbalance


def test_a_report_on_the_predictors_own_profile_says_so(
    predictor: Path, sample_data: Path, tmp_path: Path, asp: Run
) -> None:
    profile = predictor.parent / "profile.parquet"
    prompts = sample_data / "profile_prompts.parquet"
    asp("predict", prompts, "--predictor", predictor, "-o", tmp_path / "l")
    asp("partition", tmp_path / "l", "-o", tmp_path / "m")
    asp("balance", tmp_path / "m", "-o", tmp_path / "g")
    done = asp("report", tmp_path / "g", "--lengths", tmp_path / "l", "--profile", profile)
    assert done.code == 0 and "the predictor was trained on" in done.stderr
