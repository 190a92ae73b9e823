"""verl's own dataset, sampler and loader over an emitted directory; skipped without verl.

No GPU and no engine are needed: these parts decide which prompts make a train batch.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from stages.emit.stage import EmitConfig, run_for_trainer

pytest.importorskip("verl")

NUM_PROMPTS = 22
TRAIN_BATCH = 4  # prompts


@pytest.fixture
def emitted(tmp_path: Path) -> Path:
    """Two epochs of five groups of one train batch each, and a last one of two prompts."""
    rows: list[dict[str, Any]] = []
    for epoch in range(2):
        order = np.random.default_rng(epoch).permutation(NUM_PROMPTS).tolist()
        for position in range(11):
            rows.append(
                {
                    "minibatch_id": position, "epoch": epoch, "position": position,
                    "group_id": position // 2, "num_samples": 4,
                    "prompt_ids": order[2 * position : 2 * position + 2],
                    "predicted_tokens": 1.0, "predicted_longest": 1.0, "predicted_seconds": 1.0,
                    "predicted_utilization": 0.5,
                }
            )  # fmt: skip
    pl.DataFrame(rows).write_parquet(tmp_path / "groups.parquet")
    questions = [[{"role": "user", "content": f"né {n}"}] for n in range(NUM_PROMPTS)]
    pl.DataFrame(
        {
            "data_source": "test",
            "prompt": questions,
            "reward_model": [{"style": "rule", "ground_truth": str(n)} for n in range(NUM_PROMPTS)],
            "extra_info": [{"index": n, "split": "train"} for n in range(NUM_PROMPTS)],
        }
    ).write_parquet(tmp_path / "prompts.parquet")
    run_for_trainer(
        str(tmp_path / "groups.parquet"),
        str(tmp_path / "prompts.parquet"),
        str(tmp_path / "out"),
        "verl",
        EmitConfig(remainder="repeat"),
    )
    return tmp_path / "out"


def make_loader(folder: Path, *more: str) -> tuple[Any, Any]:
    """The train loader as verl builds it, from verl's own defaults and the emitted overrides."""
    import verl
    from hydra import compose, initialize_config_dir
    from torchdata.stateful_dataloader import StatefulDataLoader
    from verl.trainer.ppo.utils import create_rl_sampler
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    text = (folder / "overrides.txt").read_text().replace("${ASP_DIR}", str(folder))
    defaults = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(defaults), version_base=None):
        config = compose("ppo_trainer", overrides=[*text.splitlines(), *more])
    dataset = RLHFDataset(config.data.train_files, tokenizer=None, config=config.data)
    loader = StatefulDataLoader(
        dataset=dataset,
        batch_size=config.data.get("gen_batch_size", None) or config.data.train_batch_size,
        num_workers=0,
        drop_last=True,
        collate_fn=collate_fn,
        sampler=create_rl_sampler(config.data, dataset),
    )
    return loader, config


def indices(batch: dict[str, Any]) -> list[int]:
    return [int(info["index"]) for info in batch["extra_info"]]


def planned_batches(folder: Path) -> list[list[int]]:
    ids = json.loads((folder / "asp.json").read_text())["row_prompt_ids"]
    return [ids[start : start + TRAIN_BATCH] for start in range(0, len(ids), TRAIN_BATCH)]


def test_verl_yields_the_planned_batches_of_both_epochs(emitted: Path) -> None:
    loader, config = make_loader(emitted)
    assert config.actor_rollout_ref.rollout.n == 2 and config.trainer.total_epochs == 1
    batches = list(loader)
    assert [indices(batch) for batch in batches] == planned_batches(emitted)
    assert len(batches) == 12  # 24 rows an epoch, two of them repeats
    assert batches[0]["raw_prompt"][0][0]["content"] == f"né {planned_batches(emitted)[0][0]}"


def test_verl_resumes_in_the_middle(emitted: Path) -> None:
    loader, _ = make_loader(emitted)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    state = loader.state_dict()
    resumed, _ = make_loader(emitted)
    resumed.load_state_dict(state)
    assert [indices(batch) for batch in resumed] == planned_batches(emitted)[5:]


def test_verl_left_to_its_defaults_loses_the_schedule(emitted: Path) -> None:
    """The check above can fail: with shuffling on, the batches are others."""
    loader, _ = make_loader(emitted, "data.shuffle=True", "data.seed=1")
    assert [indices(batch) for batch in loader] != planned_batches(emitted)
