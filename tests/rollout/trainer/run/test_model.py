"""A tiny model: generated from, scored, trained, in processes of their own."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rollout.trainer.config import ControlConfig, CutConfig, ModelConfig, RunConfig
from rollout.trainer.sealed import check_seal
from tests.rollout.trainer.run.conftest import read_journal


def even(responses: Sequence[str], row: Mapping[str, Any]) -> list[float]:
    """1 where the length in characters is as the prompt's row asks."""
    return [float(len(response) % 2 == row["odd"]) for response in responses]


@pytest.mark.slow
def test_a_model_is_trained_on_its_own_responses(
    model_dir: Path, tmp_path: Path, ray_address: str
) -> None:
    from transformers import AutoModelForCausalLM

    from rollout.trainer import stage

    rows = [{"prompt": f"count to {number}", "odd": number % 2} for number in range(12)]
    (tmp_path / "prompts").write_text("\n".join(map(json.dumps, rows)))
    source = ModelConfig(
        str(model_dir), str(tmp_path / "prompts"), f"{__name__}:even", units=2, slots=8,
        max_response_tokens=24, learning_rate=1e-3,
    )  # fmt: skip
    cut = CutConfig(samples_per_prompt=4, batch_size=2, group_size=1, epochs=2)
    place = tmp_path / "run"
    stage.run(None, str(place), source, ControlConfig("async", max_lag=1), cut, RunConfig(), seed=3)
    metrics = pl.read_parquet(place / "metrics.parquet")
    assert len(metrics) == 12 and metrics["samples"].sum() == 96
    assert metrics["num_masked"].sum() == 0
    assert 0 < metrics["reward_mean"].mean() < 1
    assert metrics["grad_norm"].max() > 0
    assert 0.5 < metrics["ratio_mean"].mean() < 2
    trained = AutoModelForCausalLM.from_pretrained(place / "model").state_dict()
    before = AutoModelForCausalLM.from_pretrained(model_dir).state_dict()
    assert any(not trained[name].equal(before[name]) for name in before)
    assert check_seal(place / "model")["version"] == 12
    tokens = [json.loads(row) for (row,) in read_journal(place, "SELECT tokens FROM trained")]
    assert max(map(max, tokens)) <= 24 and min(map(min, tokens)) >= 1
