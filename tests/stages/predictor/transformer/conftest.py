"""Tiny random base models with a tokenizer trained on the spot, one causal, one not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 256, "initializer_range": 0.2,
}  # fmt: skip


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Several torch processes on few cores slow each other down."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def save_tokenizer(folder: Path, template: str | None) -> int:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|pad|>", "<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train_from_iterator(["user assistant Explain how to add numbers, prove, list"], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, pad_token="<|pad|>", eos_token="<|end|>"
    )
    tokenizer.chat_template = template
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
