"""TRL's own GRPOTrainer over an emitted directory: does it train on the scheduled batches?

A tiny random model on the CPU; what it answers does not matter, only which prompts come when.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rollout.verify.stage import VerifyConfig, run
from stages.emit.stage import EmitConfig, run_for_trainer
from tests.tiny import byte_tokenizer

pytest.importorskip("trl")

NUM_PROMPTS = 22
TRAIN_BATCH = 4  # prompts; the last two fill no batch
SAMPLES = 2


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five groups of one train batch each, and a last one of two prompts."""
    folder = tmp_path_factory.mktemp("trl")
    order = np.random.default_rng(0).permutation(NUM_PROMPTS).tolist()
    parts = [order[start : start + 2] for start in range(0, NUM_PROMPTS, 2)]
    count = range(len(parts))
    pl.DataFrame(
        {
            "minibatch_id": count, "position": count, "group_id": [n // 2 for n in count],
            "prompt_ids": parts, "num_samples": [2 * SAMPLES] * len(parts),
            "predicted_tokens": 1.0, "predicted_longest": 1.0, "predicted_seconds": 1.0,
            "predicted_utilization": 0.5,
        }
    ).write_parquet(folder / "groups.parquet")  # fmt: skip
    questions = [f"What is {n} plus {n}?" for n in range(NUM_PROMPTS)]
    prompts = pl.DataFrame({"prompt": questions, "answer": range(NUM_PROMPTS)})
    prompts.write_parquet(folder / "prompts.parquet")
    run_for_trainer(
        str(folder / "groups.parquet"),
        str(folder / "prompts.parquet"),
        str(folder / "out"),
        "trl",
        EmitConfig(),
    )
    return folder / "out"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A byte-level BPE that has seen nothing."""
    return byte_tokenizer("What is one plus one?", 300, ["<pad>", "<eos>"])


def train(folder: Path, tokenizer: Any, output: Path, **changes: Any) -> list[list[int]]:
    """Train as the README says; the answers of the prompts of each generation, in order."""
    from datasets import load_dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    seen: list[list[int]] = []

    def reward(completions: list[str], answer: list[int], **_: Any) -> list[float]:
        seen.append(answer)
        return [float(len(text) % 7) for text in completions]

    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )  # fmt: skip
    settings = json.loads((folder / "grpo_config.json").read_text()) | changes
    args = GRPOConfig(
        **settings, per_device_train_batch_size=4, max_completion_length=4, use_cpu=True,
        bf16=False, gradient_checkpointing=False, report_to="none", save_strategy="no",
        disable_tqdm=True, output_dir=str(output), log_completions=True, logging_steps=1,
    )  # fmt: skip
    dataset = load_dataset(
        "parquet",
        data_files=str(folder / "prompts.parquet"),
        split="train",
        cache_dir=str(output / "cache"),
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=args,
        train_dataset=dataset,
        processing_class=tokenizer,
    )
    trainer.train()
    return seen


def verified(folder: Path, tokenizer: Any, output: Path) -> tuple[str, bool]:
    """What `asp verify` says of the log that the trainer left."""
    tokenizer.save_pretrained(output / "tokenizer")
    config = VerifyConfig("trl", tokenizer=str(output / "tokenizer"))
    table = output / "verified.parquet"
    return run(str(folder), str(output / "completions"), str(table), config)


@pytest.mark.usefixtures("one_thread")
def test_trl_trains_on_the_scheduled_batches(emitted: Path, tokenizer: Any, tmp_path: Path) -> None:
    sidecar = json.loads((emitted / "asp.json").read_text())
    ids = sidecar["row_prompt_ids"]
    assert sidecar["train_batch_size"] == TRAIN_BATCH and sidecar["samples_per_prompt"] == SAMPLES
    assert sidecar["remainder"]["num_prompts"] == 2
    planned = [
        [i for i in ids[start : start + TRAIN_BATCH] for _ in range(SAMPLES)]
        for start in range(0, sidecar["num_train_batches"] * TRAIN_BATCH, TRAIN_BATCH)
    ]
    assert train(emitted, tokenizer, tmp_path) == planned
    words, is_followed = verified(emitted, tokenizer, tmp_path)
    assert is_followed and "40 responses of 5 steps" in words and "utilisation" in words
    assert pl.read_parquet(tmp_path / "verified.parquet")["num_kept"].to_list() == [TRAIN_BATCH] * 5
    assert [e["num_rows"] for e in sidecar["groups"]] == [TRAIN_BATCH] * 5 + [2]


@pytest.mark.usefixtures("one_thread")
def test_trl_left_to_its_defaults_loses_the_schedule(
    emitted: Path, tokenizer: Any, tmp_path: Path
) -> None:
    """The check above can fail: with shuffling on, the batches are others."""
    ids = json.loads((emitted / "asp.json").read_text())["row_prompt_ids"]
    seen = train(emitted, tokenizer, tmp_path, shuffle_dataset=True)
    assert len(seen) == NUM_PROMPTS // TRAIN_BATCH
    planned = [set(ids[n : n + TRAIN_BATCH]) for n in range(0, len(seen) * TRAIN_BATCH, 4)]
    assert [set(batch) for batch in seen] != planned
    words, is_followed = verified(emitted, tokenizer, tmp_path)
    assert not is_followed and words.startswith("not followed: the trainer has reshuffled")
    assert "shuffle_dataset=False" in words
