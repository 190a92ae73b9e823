"""What a report takes from footers and files that others wrote."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rollout.origin import known_settings
from rollout.report import run
from stages.balance.stage import BalanceConfig
from stages.partition.stage import PartitionConfig
from stages.tables.errors import AspError


def test_settings_of_a_footer_that_cannot_be_meant_are_left_out() -> None:
    cut: dict[str, Any] = {
        "batch_size": 0, "slack": None, "samples_per_prompt": 2**70, "objective": "x", "by": [1],
        "method": 3, "seed": "x", "of another version": 1,
    }  # fmt: skip
    assert known_settings(PartitionConfig, cut) == {}
    deal = {"group_size": "8", "prompts_per_group": -1, "load": 1, "method": {}}
    assert known_settings(BalanceConfig, deal) == {}


def test_settings_that_are_meant_are_kept() -> None:
    cut = {
        "batch_size": 8, "slack": 0.5, "samples_per_prompt": None, "objective": "padding",
        "by": "longest", "method": "fixed", "seed": 3,
    }  # fmt: skip
    assert known_settings(PartitionConfig, cut) == cut
    deal = {"group_size": 4, "prompts_per_group": 16, "load": "tokens", "method": "snake"}
    assert known_settings(BalanceConfig, deal) == deal


def test_a_schedule_of_no_recorded_prompt_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"prompt_id": [0, 1], "mu": 1.0, "sigma": 1.0, "cap": 9}).write_parquet(
        tmp_path / "l"
    )
    pl.DataFrame(
        {
            "prompt_id": [1], "prompt_hash": "h", "prompt": "p", "model": "m", "sample_index": 0,
            "response_tokens": 3, "finish_reason": "stop",
        }
    ).write_parquet(tmp_path / "p")  # fmt: skip
    pl.DataFrame(
        {
            "minibatch_id": [0], "prompt_ids": [[0]], "group_id": 0, "position": 0,
            "num_samples": 1, "predicted_tokens": 1.0, "predicted_longest": 1.0,
            "predicted_seconds": 1.0, "predicted_utilization": 1.0,
        }
    ).write_parquet(tmp_path / "g")  # fmt: skip
    with pytest.raises(AspError, match="no response to any of the prompts that"):
        run(str(tmp_path / "g"), str(tmp_path / "l"), str(tmp_path / "p"), slots=4, seed=0)
