"""Tiny random base models with a tokenizer trained on the spot, one causal, one not."""

from pathlib import Path

import pytest

from tests.tiny import TEMPLATE, byte_tokenizer

SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 256, "initializer_range": 0.2,
}  # fmt: skip


def save_tokenizer(folder: Path, template: str | None) -> int:
    tokenizer = byte_tokenizer(
        "user assistant Explain how to add numbers, prove, list", 400,
        ["<|pad|>", "<|start|>", "<|end|>"], template,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


@pytest.fixture(scope="session")
def causal_path(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A directory with a Qwen2 of some 40,000 random parameters and a chat template."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("base") / "causal"
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=save_tokenizer(folder, TEMPLATE), num_key_value_heads=2, **SIZES
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def encoder_path(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A directory with a BERT as small, without a template."""
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("base") / "encoder"
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=save_tokenizer(folder, None), **SIZES)).save_pretrained(folder)
    return folder
