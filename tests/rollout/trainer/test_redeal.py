"""An epoch dealt by the lengths of earlier responses."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from rollout.control.schedule import plan_of
from rollout.trainer.epochs import due_versions
from rollout.trainer.observed import Made
from rollout.trainer.redeal import GROUPS, LENGTHS, OBSERVED, Recipe, heads_of, redeal
from stages.balance.config import BalanceConfig
from stages.partition.config import PartitionConfig
from stages.tables.errors import AspError
from stages.tables.prompts import prompt_hash
from tests.rollout.conftest import MakeSchedule, schedule_of

NUM_PROMPTS = 48
RECIPE = Recipe(
    lengths="", texts={prompt: f"p{prompt}" for prompt in range(NUM_PROMPTS)}, model="tiny",
    samples_per_prompt=2, cut=PartitionConfig(batch_size=4), deal=BalanceConfig(group_size=3),
    seed=0,
)  # fmt: skip


@pytest.fixture
def lengths(tmp_path: Path) -> Path:
    """All prompts are predicted alike, at 20 tokens."""
    prompts = range(NUM_PROMPTS)
    pl.DataFrame(
        {
            "prompt_id": prompts, "prompt_hash": [prompt_hash(f"p{prompt}") for prompt in prompts],
            "mu": 3.0, "sigma": 0.8, "cap": 200, "sample_sigma": 0.4, "samples_per_prompt": 2,
        }
    ).write_parquet(tmp_path / "lengths")  # fmt: skip
    return tmp_path / "lengths"


def observed(prompt: int) -> tuple[int, int]:
    """Every third is long; one meets its cap."""
    return (200, 150) if prompt == 5 else (90, 110) if prompt % 3 == 2 else (9, 11)


def test_prompts_seen_to_be_alike_come_together(lengths: Path, tmp_path: Path) -> None:
    made = [
        Made(prompt, prompt // 12, observed(prompt), prompt // 12) for prompt in range(NUM_PROMPTS)
    ]
    groups = redeal(RECIPE, lengths, made, 1, tmp_path / "out")
    assert groups is not None
    profile = pl.read_parquet(tmp_path / "out" / OBSERVED)
    assert profile["response_tokens"].to_list()[10:12] == [200, 150]
    assert profile["finish_reason"].to_list()[10:12] == ["length", "stop"]
    assert profile["policy_version"].to_list() == [row // 24 for row in range(96)]
    mu = pl.read_parquet(tmp_path / "out" / LENGTHS)["mu"]
    long = [prompt % 3 == 2 for prompt in range(NUM_PROMPTS)]
    assert mu.filter(pl.Series(long)).min() > 3.5 > 2.9 > mu.filter(~pl.Series(long)).max()
    assert Counter(groups["prompt_ids"].explode()) == Counter(range(NUM_PROMPTS))
    mixed = [len({prompt % 3 == 2 for prompt in ids}) > 1 for ids in groups["prompt_ids"]]
    assert sum(mixed) <= 1
    assert groups["group_id"].n_unique() == 4 and groups["epoch"].unique().to_list() == [1]
    again = redeal(RECIPE, lengths, made, 1, tmp_path / "again")
    for name in (OBSERVED, LENGTHS, GROUPS):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert again is not None and again.equals(groups)


def test_heads_keep_numbers_and_steps(make_schedule: MakeSchedule) -> None:
    """The second epoch of two: four prompts in two steps, numbered 4 to 7, each with 2 samples."""
    plan = plan_of(make_schedule([[2], [2]], samples=2, num_epochs=2))
    groups = pl.DataFrame(
        {
            "group_id": [0, 1, 1], "position": [0, 1, 2], "prompt_ids": [[3, 0], [2], [1]],
            "instance": [None, None, None],
        }
    )  # fmt: skip
    heads = heads_of(plan, 1, groups)
    assert [(h.step, h.groups, h.num_samples) for h in heads] == [
        (2, [7, 4], 4), (3, [6], 2), (3, [5], 2),
    ]  # fmt: skip
    assert len({(head.epoch, head.minibatch_id) for head in heads}) == 3
    dealt = plan.redealt(1, heads)
    assert dealt.step_g == (0, 0, 1, 1, 2, 3, 3, 2)
    assert dealt.heads[:2] == plan.heads[:2] and dealt.heads[2:] == tuple(heads)
    with pytest.raises(AspError, match="make 1 batch groups, and it has 2"):
        heads_of(plan, 1, groups.with_columns(group_id=0))


def test_an_epoch_is_due_as_early_as_it_may_begin() -> None:
    plan = plan_of(schedule_of([[1], [1], [1]], num_epochs=3))
    assert due_versions(plan, 0) == {3: 1, 6: 2, 9: 3}
    assert due_versions(plan, 2) == {1: 1, 4: 2, 9: 3}
    assert due_versions(plan, 3) == {3: 2, 9: 3}, "epoch 1 may begin at once"


def test_no_epoch_to_deal(lengths: Path, tmp_path: Path) -> None:
    made = [Made(prompt, 7, observed(prompt), 7) for prompt in range(40)] * 2
    assert redeal(RECIPE, lengths, made, None, tmp_path / "out") is None
    assert not (tmp_path / "out" / GROUPS).exists()
    assert pl.read_parquet(tmp_path / "out" / OBSERVED)["sample_index"].max() == 3
    with pytest.raises(AspError, match="no prompt has a whole sample group"):
        redeal(replace(RECIPE, samples_per_prompt=5), lengths, made, None, tmp_path / "out")
