"""A tiny random model with a tokenizer trained on the spot, and a prompt file in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stages.profile.logs.known import LAYOUTS
from stages.profile.normal import RECORDED
from stages.profile.recorded import Recording
from stages.tables.prompt_survey import PromptFile
from stages.tables.prompts import canonical_text, prompt_hash
from tests.tiny import TEMPLATE, byte_tokenizer


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A directory with a Qwen2 of 60,000 random parameters that stops now and then.

    Every eighth token of its vocabulary ends a response, so at temperature 1 responses have about
    eight tokens.
    """
    import torch
    from transformers import GenerationConfig, Qwen2Config
    from transformers import Qwen2ForCausalLM as Qwen2

    tokenizer = byte_tokenizer(
        "user assistant system What is one plus two? Add them.", 320,
        ["<|pad|>", "<|start|>", "<|end|>"], TEMPLATE,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Qwen2(
        Qwen2Config(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
            initializer_range=0.2, tie_word_embeddings=False,
        )
    )  # fmt: skip
    # What a real one recommends for chatting, and what a profile must leave out.
    model.generation_config = GenerationConfig(
        eos_token_id=list(range(2, len(tokenizer), 8)),
        do_sample=True,
        top_k=1,
        temperature=0.6,
        repetition_penalty=2.0,
    )
    folder = tmp_path_factory.mktemp("models") / "tiny"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_prompts(raw: Sequence[Any]) -> PromptFile:
    texts = [canonical_text(prompt) for prompt in raw]
    frame = pl.DataFrame(
        {
            "prompt_id": pl.int_range(len(texts), dtype=pl.Int64, eager=True),
            "prompt_hash": [prompt_hash(text or "") for text in texts],
            "prompt": texts,
            "domain": pl.Series([None] * len(texts), dtype=pl.String),
        }
    )
    return PromptFile(frame, list(raw), "the prompts", "0" * 64)


def make_recording(rows: Sequence[dict[str, Any]], **changes: Any) -> Recording:
    frame = pl.DataFrame(
        [{"file": 0, "row": number} | row for number, row in enumerate(rows)], schema=RECORDED
    )
    held: dict[str, Any] = {
        "name": "the rollouts", "layout": LAYOUTS["plain"], "model": "m", "num_rows": len(rows),
        "num_relogged": 0, "sha256": "1" * 64, "provenance": None,
    }  # fmt: skip
    return Recording(frame=frame, **(held | changes))


@pytest.fixture(scope="session", name="make_prompts")
def _make_prompts() -> Callable[[Sequence[Any]], PromptFile]:
    """A prompt file of these prompts."""
    return make_prompts


@pytest.fixture(scope="session", name="make_recording")
def _make_recording() -> Callable[..., Recording]:
    """Recorded responses of one model, from rows with some of RECORDED's columns."""
    return make_recording
