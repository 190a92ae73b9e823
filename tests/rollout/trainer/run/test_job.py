"""What a run without a model takes from the files that `asp simulate` reads."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from rollout.trainer.config import ControlConfig, CutConfig, TimedConfig
from rollout.trainer.timed_machine import read_timed
from stages.tables.errors import AspError


@pytest.fixture
def source(files: Path, tmp_path: Path) -> TimedConfig:
    """The small cluster, in a file that a test can add to."""
    (tmp_path / "cluster").write_text((files / "static").read_text())
    return TimedConfig(str(tmp_path / "cluster"), str(files / "lengths"))


def add(source: TimedConfig, text: str) -> None:
    with open(source.cluster, "a") as file:
        file.write(text)


def test_the_cluster_file_paces_unless_a_flag_does(files: Path, source: TimedConfig) -> None:
    pytest.importorskip("ray")
    from rollout.trainer.job import read_job

    add(source, '[queue]\npacing = "watermark"\nset_point = 30\n')
    schedule, cut = str(files / "schedule"), CutConfig()
    assert read_job(schedule, source, ControlConfig(), cut, 0).settings.pacing == "watermark"
    job = read_job(schedule, source, ControlConfig(pacing="setpoint"), cut, 0)
    assert (job.settings.pacing, job.settings.set_point) == ("setpoint", 30)


def test_a_profile_of_other_prompts_is_refused(source: TimedConfig, tmp_path: Path) -> None:
    rows = {"prompt_id": [7], "response_tokens": [40]}
    profile = pl.DataFrame(rows).with_columns(
        prompt_hash=pl.lit("0" * 16), prompt=pl.lit("p"), model=pl.lit("m"), sample_index=0,
        finish_reason=pl.lit("stop"),
    )  # fmt: skip
    profile.write_parquet(tmp_path / "profile")
    known = read_timed(replace(source, profile=str(tmp_path / "profile"))).recorded
    assert {prompt: tokens.tolist() for prompt, tokens in known.items()} == {7: [40]}
    profile.with_columns(prompt_id=pl.lit(500)).write_parquet(tmp_path / "profile")
    with pytest.raises(AspError, match="holds no response to any of the prompts of"):
        read_timed(replace(source, profile=str(tmp_path / "profile")))


def test_what_only_the_simulator_does_is_told(
    source: TimedConfig, caplog: pytest.LogCaptureFixture
) -> None:
    read_timed(source)
    assert not caplog.records
    add(source, "[timeouts]\nresponse_seconds = 60\n")
    read_timed(source)
    assert "its time-outs and disturbances are for the simulator" in caplog.text
