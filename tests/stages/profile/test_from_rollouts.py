"""A profile of recorded rollouts depends on nothing but them, the prompts and the flags."""

from pathlib import Path

import numpy as np
import polars as pl

from stages.profile.from_rollouts import RolloutsConfig, run_rollouts

TEXTS = ["a", "bb", "a", "ccccc", "dddd", "eee", "ffffffff"]  # six different ones


def test_equal_rollouts_and_flags_give_equal_bytes(tmp_path: Path) -> None:
    prompts_path = str(tmp_path / "prompts.parquet")
    pl.DataFrame({"prompt": TEXTS}).write_parquet(prompts_path)
    rng = np.random.default_rng(0)
    rollouts = tmp_path / "r.parquet"
    pl.DataFrame(
        {"prompt": rng.choice(TEXTS, 200), "response_tokens": rng.integers(1, 99, 200)}
    ).write_parquet(rollouts)
    config = RolloutsConfig(num_prompts=4, rollouts_per_prompt=5, max_response_tokens=90, seed=3)
    for name in ("a", "b"):
        run_rollouts(prompts_path, str(rollouts), str(tmp_path / f"{name}.parquet"), config)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (moved / "other.parquet").write_bytes(rollouts.read_bytes())
    run_rollouts(prompts_path, str(moved / "other.parquet"), str(tmp_path / "c.parquet"), config)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "c.parquet").read_bytes()
