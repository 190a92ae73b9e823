"""A run's own responses, as other commands read them."""

from pathlib import Path

import polars as pl

from rollout.trainer.observed import Made, profile_of
from rollout.verify.stage import VerifyConfig, run
from stages.tables.io import write_table
from stages.tables.prompts import prompt_hash
from stages.tables.provenance import Provenance
from stages.tables.schemas import Profile
from tests.rollout.conftest import MakeSchedule

CAP = 30
KNOWN = pl.DataFrame(
    {
        "prompt_id": range(4),
        "prompt": ["a", "b", "c", "d"],
        "prompt_hash": [prompt_hash(text) for text in "abcd"],
        "max_response_tokens": CAP,
    }
)
MADE = [  # two steps of two prompts, two responses each, in two epochs
    Made(prompt, step - 1 if step else 0, (10 + prompt, CAP), step)
    for step, prompts in enumerate([(0, 1), (2, 3), (0, 1), (2, 3)])
    for prompt in prompts
]


def test_the_rows() -> None:
    rows = profile_of(MADE, KNOWN, "tiny")
    assert rows["step"].to_list() == [step for step in range(4) for _ in range(4)]
    assert rows["policy_version"].unique().sort().to_list() == [0, 1, 2]
    assert rows["finish_reason"].to_list() == ["stop", "length"] * 8
    of_first = rows.filter(prompt_id=0)
    assert of_first["sample_index"].to_list() == [0, 1, 2, 3]
    assert of_first["response_tokens"].to_list() == [10, CAP, 10, CAP]


def test_verify_reads_what_a_run_leaves(make_schedule: MakeSchedule, tmp_path: Path) -> None:
    make_schedule([[2], [2]], samples=2, num_epochs=2).with_columns(
        predicted_tokens=60.0, predicted_longest=30.0, predicted_seconds=1.0,
        predicted_utilization=0.5,
    ).write_parquet(tmp_path / "schedule")  # fmt: skip
    KNOWN.select("prompt").write_parquet(tmp_path / "prompts")
    (tmp_path / "run").mkdir()
    output = str(tmp_path / "run" / "rollouts.parquet")
    write_table(
        profile_of(MADE, KNOWN, "tiny"), Profile, output, Provenance("train", "profile/1"), False
    )
    config = VerifyConfig("asp", prompts=str(tmp_path / "prompts"))
    words, is_followed = run(str(tmp_path / "schedule"), str(tmp_path / "run"), None, config)
    assert is_followed, words
    assert "16 responses of 4 steps (0 to 3); 4 of these 4 are as planned" in words
