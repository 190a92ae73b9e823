"""Groups tables built by hand, and the user's prompt files beside them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from stages.tables.io import write_table
from stages.tables.prompts import prompt_hash
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Groups

MakeGroups = Callable[..., pl.DataFrame]


def text_of(prompt_id: int) -> str:
    return f"Question {prompt_id}: how much is {prompt_id} times 7?"


@pytest.fixture(scope="session")
def make_groups() -> MakeGroups:
    """`make_groups([[2, 3], [4]])`: a group of minibatches of 2 and 3 prompts, and one of 4."""

    def make(
        sizes: list[list[int]], num_epochs: int = 1, samples: int = 2, is_hashed: bool = True
    ) -> pl.DataFrame:
        num_prompts = sum(map(sum, sizes))
        rows: list[dict[str, Any]] = []
        for epoch in range(num_epochs):
            order = np.random.default_rng(epoch).permutation(num_prompts).tolist()
            position = 0
            for group_id, group in enumerate(sizes):
                for size in group:
                    ids, order = order[:size], order[size:]
                    rows.append(
                        {
                            "minibatch_id": position,
                            "prompt_ids": ids,
                            "prompt_hashes": [prompt_hash(text_of(i)) for i in ids],
                            "num_samples": samples * size,
                            "predicted_tokens": 100.0 * size,
                            "predicted_longest": 200.0,
                            "predicted_seconds": 4.0,
                            "predicted_utilization": 0.5,
                            "epoch": epoch,
                            "group_id": group_id,
                            "position": position,
                        }
                    )
                    position += 1
        frame = pl.DataFrame(rows)
        return frame if is_hashed else frame.drop("prompt_hashes")

    return make


@pytest.fixture(scope="session")
def make_prompts() -> Callable[[int, Path], Path]:
    """The prompt file of those groups, Parquet or JSON lines by the name."""

    def make(num_prompts: int, path: Path) -> Path:
        texts = [text_of(i) for i in range(num_prompts)]
        if path.suffix == ".jsonl":
            lines = (json.dumps({"prompt": t, "answer": 7 * i}) for i, t in enumerate(texts))
            path.write_text("\n".join(lines))
        else:
            frame = pl.DataFrame({"prompt": texts, "answer": range(0, 7 * num_prompts, 7)})
            frame.write_parquet(path)
        return path

    return make


@pytest.fixture(scope="session")
def write_groups(make_groups: MakeGroups) -> Callable[..., Path]:
    """A groups table as balance writes it, with the footers of the stages before."""

    def write(path: Path, sizes: list[list[int]], **balance: Any) -> Path:
        cut = Provenance(
            "partition",
            "minibatches/1",
            config={
                "batch_size": 32,
                "slack": 0.25,
                "samples_per_prompt": 2,
                "cost_model": {"step_seconds": 0.02, "sequence_seconds": 8e-05},
            },
        )
        dealt = Provenance(
            "balance",
            "groups/1",
            config={"group_size": 8, "prompts_per_group": None} | balance,
            inputs=(Input("minibatches", "ab" * 32, cut),),
        )
        frame = make_groups(sizes).with_columns(
            kind=pl.lit("head", dtype=Groups.kind.dtype),
            round=pl.lit(0, dtype=pl.Int64),
            num_prompts=pl.col("prompt_ids").list.len().cast(pl.Int64),
        )
        write_table(frame, Groups, str(path), dealt, force=True)
        return path

    return write
