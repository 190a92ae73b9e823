"""What the settings of a run with a model become."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from rollout.trainer.config import ModelConfig
from rollout.trainer.model_machine import model_machine, read_model
from tests.rollout.trainer.conftest import MakeGroups


@pytest.fixture
def source(model_dir: Path, tmp_path: Path) -> ModelConfig:
    (tmp_path / "prompts").write_text(json.dumps({"prompt": "one and one"}))
    return ModelConfig(
        str(model_dir), str(tmp_path / "prompts"), "math:prod", max_response_tokens=24
    )


def step(source: ModelConfig, make_groups: MakeGroups, **changed: Any) -> dict[str, Any]:
    """Metrics of a step on a group of equal rewards and one of others."""
    machine = model_machine(read_model(source), replace(source, **changed), 0)
    return asdict(machine.open_trainer().train(make_groups([[1.0, 1.0], [1.0, 0.0]])))


@pytest.mark.parametrize(("ways", "share"), [("keep", 1.0), ("skip", 2.0)])
def test_groups_of_equal_rewards_are_in_the_loss_or_out_of_it(
    source: ModelConfig, make_groups: MakeGroups, ways: Literal["keep", "skip"], share: float
) -> None:
    """Left out, they do not count in what the loss is divided by."""
    kept = step(source, make_groups)["grad_norm"]
    grad_norm = step(source, make_groups, zero_advantage=ways)["grad_norm"]
    assert grad_norm == pytest.approx(share * kept, rel=1e-4)


def test_the_size_of_a_micro_batch_decides_no_result(
    source: ModelConfig, make_groups: MakeGroups
) -> None:
    whole = step(source, make_groups)
    cut = step(source, make_groups, tokens_per_micro_batch=20)
    assert cut["grad_norm"] == pytest.approx(whole["grad_norm"], rel=1e-4)
