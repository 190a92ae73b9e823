"""A tiny model directory, and sample groups that its weights could have drawn."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rollout.trainer.samples import Sample, SampleGroup
from tests.tiny import byte_tokenizer

MakeGroups = Callable[..., list[SampleGroup]]


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A Qwen2 of some 20,000 random parameters, tied embeddings, and a byte-level tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = byte_tokenizer("one and one", 270, ["<pad>", "<end>"])
    folder = tmp_path_factory.mktemp("policy") / "tiny"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.2,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def groups_of(
    rewards: list[list[float]], seed: int = 0, longest: int = 12, logprob: float = -5.6
) -> list[SampleGroup]:
    """A group for each list of rewards; prompts, responses and their lengths are drawn.

    Recorded log-probabilities scatter about `logprob`, that of one token in 270.
    """
    rng = np.random.default_rng(seed)
    groups = []
    for number, reward_s in enumerate(rewards):
        prompt_ids = rng.integers(2, 258, rng.integers(2, 6))
        samples = []
        for reward in reward_s:
            tokens = int(rng.integers(1, longest + 1))
            samples.append(
                Sample(
                    prompt_ids=prompt_ids,
                    token_ids=rng.integers(2, 258, tokens),
                    logprobs_t=rng.normal(logprob, 0.5, tokens).astype(np.float32),
                    end="stop",
                    reward=reward,
                )
            )
        groups.append(SampleGroup(number, number, tuple(samples), lag=0))
    return groups


@pytest.fixture(scope="session")
def make_groups() -> MakeGroups:
    """`groups_of`."""
    return groups_of
