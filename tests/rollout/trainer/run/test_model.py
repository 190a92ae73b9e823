"""A tiny model: generated from, scored, trained, in processes of their own."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rollout.trainer.config import ControlConfig, CutConfig, ModelConfig, RunConfig
from rollout.trainer.sealed import check_seal
from stages.balance import stage as balance
from stages.balance.config import BalanceConfig
from stages.partition import stage as partition
from stages.partition.config import PartitionConfig
from stages.tables.prompts import prompt_hash
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
    rollouts = pl.read_parquet(place / "rollouts.parquet")
    assert rollouts["response_tokens"].to_list() == [n for made in tokens for n in made]
    assert rollouts["step"].value_counts().sort("step").rows() == [(step, 8) for step in range(12)]
    assert max(map(max, tokens)) <= 24 and min(map(min, tokens)) >= 1


@pytest.mark.slow
def test_an_epoch_goes_by_what_the_model_said(
    model_dir: Path, tmp_path: Path, ray_address: str
) -> None:
    """Of a schedule of two epochs the second is dealt by the responses of the first."""
    from rollout.trainer import stage

    prompts = [f"count to {number}" for number in range(12)]
    rows = [{"prompt": prompt, "odd": 1} for prompt in prompts]
    (tmp_path / "prompts").write_text("\n".join(map(json.dumps, rows)))
    pl.DataFrame(
        {
            "prompt_id": range(12), "prompt_hash": [prompt_hash(prompt) for prompt in prompts],
            "mu": 3.0, "sigma": 0.9, "cap": 24, "sample_sigma": 0.6,
        }
    ).write_parquet(tmp_path / "lengths")  # fmt: skip
    cut = PartitionConfig(batch_size=2, samples_per_prompt=4)
    partition.run(str(tmp_path / "lengths"), str(tmp_path / "minibatches"), cut)
    deal = BalanceConfig(group_size=3, epochs=2)
    balance.run(str(tmp_path / "minibatches"), str(tmp_path / "schedule"), deal)
    source = ModelConfig(
        str(model_dir), str(tmp_path / "prompts"), f"{__name__}:even", slots=12,
        max_response_tokens=24, lengths=str(tmp_path / "lengths"),
    )  # fmt: skip
    control = ControlConfig(max_lag=0, refresh_each_epoch=True)
    place = tmp_path / "run"
    stage.run(
        str(tmp_path / "schedule"), str(place), source, control, CutConfig(), RunConfig(), seed=3
    )
    seen = pl.read_parquet(place / "refreshed/epoch_1/observed.parquet")
    seen = seen.sort("prompt_id", "sample_index")
    assert seen["prompt"].to_list() == [prompt for prompt in prompts for _ in range(4)]
    assert seen["model"].unique().to_list() == ["tiny"]
    trained = "SELECT prompt, tokens FROM groups JOIN trained USING (number) WHERE epoch = 0"
    made = {prompt: json.loads(tokens) for prompt, tokens in read_journal(place, trained)}
    assert seen["response_tokens"].to_list() == [n for p in range(12) for n in made[p]]
    heads = json.loads(read_journal(place, "SELECT heads FROM deals WHERE epoch = 1")[0][0])
    groups = pl.read_parquet(place / "refreshed/epoch_1/groups.parquet")
    numbered = [[number - 12 for number in head["groups"]] for head in heads]
    order = pl.read_parquet(tmp_path / "schedule").filter(epoch=1).sort("position")["prompt_ids"]
    known = [prompt for ids in order for prompt in ids]
    assert [[known[place] for place in ids] for ids in numbered] == groups["prompt_ids"].to_list()
