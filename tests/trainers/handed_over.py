"""Directories handed over to trainers, whose own code then reads them."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from stages.emit.stage import EmitConfig, run_for_trainer

NUM_PROMPTS = 22
TRAIN_BATCH = 4  # prompts; of 22, the last two fill no batch
SAMPLES = 2


def hand_over(
    folder: Path,
    trainer: str,
    num_epochs: int = 2,
    is_text: bool = False,
    num_instances: int = 0,
    suffix: str = "parquet",
) -> Path:
    """Epochs of five groups of one train batch each, filled up with two repeats; the directory.

    Minibatches hold two prompts; of several instances, each takes the next minibatch in turn.
    """
    rows: list[dict[str, Any]] = []
    for epoch in range(num_epochs):
        order = np.random.default_rng(epoch).permutation(NUM_PROMPTS).tolist()
        for position in range(NUM_PROMPTS // 2):
            rows.append(
                {
                    "minibatch_id": position, "epoch": epoch, "position": position,
                    "group_id": position // 2, "num_samples": 2 * SAMPLES,
                    "prompt_ids": order[2 * position : 2 * position + 2],
                    "instance": position % num_instances if num_instances else None,
                    "predicted_tokens": 1.0, "predicted_longest": 1.0, "predicted_seconds": 1.0,
                    "predicted_utilization": 0.5,
                }
            )  # fmt: skip
    groups, prompts = folder / "groups.parquet", folder / f"prompts.{suffix}"
    pl.DataFrame(rows).write_parquet(groups)
    texts = [f"né {n}" for n in range(NUM_PROMPTS)]
    frame = pl.DataFrame(
        {
            "data_source": "test",
            "prompt": texts if is_text else [[{"role": "user", "content": t}] for t in texts],
            "answer": [str(n) for n in range(NUM_PROMPTS)],
            "reward_model": [{"style": "rule", "ground_truth": str(n)} for n in range(NUM_PROMPTS)],
            "extra_info": [{"index": n, "split": "train"} for n in range(NUM_PROMPTS)],
        }
    )
    frame.write_parquet(prompts) if suffix == "parquet" else frame.write_ndjson(prompts)
    config = EmitConfig(remainder="repeat")
    run_for_trainer(str(groups), str(prompts), str(folder / "out"), trainer, config)
    return folder / "out"


def sidecar(folder: Path) -> dict[str, Any]:
    """What `asp.json` says."""
    loaded: dict[str, Any] = json.loads((folder / "asp.json").read_text())
    return loaded


def planned_batches(folder: Path) -> list[list[int]]:
    """Prompt ids of every train batch."""
    ids = sidecar(folder)["row_prompt_ids"]
    return [ids[start : start + TRAIN_BATCH] for start in range(0, len(ids), TRAIN_BATCH)]


@contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """The directory on the path, as a trainer finds it; its modules are forgotten afterwards."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for file in folder.glob("asp_*.py"):
            sys.modules.pop(file.stem, None)
