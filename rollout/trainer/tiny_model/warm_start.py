"""How does the tiny model learn the moves before it is trained by reward?

By plain supervised training: worked solutions, each worked out anew when it is drawn, next token,
AdamW, a rate that rises for a while and then falls to nothing. Batches hold texts of like length,
so little is computed on padding.

Arrays end in an axis legend: b texts, w tokens (padded on the right), v the vocabulary.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Qwen2Config, Qwen2ForCausalLM

from rollout.trainer.tasks import Entry, entries
from rollout.trainer.tiny_model.puzzles import Puzzle

TRAINING_SEED = 1000  # added to the user's: prompts are made from other entries
BATCHES_SORTED = 8  # texts of so many batches are sorted by length, then cut into batches
REPORT_EVERY = 50  # steps
IGNORED = -100  # target of tokens that count for nothing: prompt and padding


@dataclass(frozen=True)
class WarmStart:
    """How long, and how fast."""

    num_steps: int = 2000
    batch_size: int = 32  # texts a step
    num_entries: int = 6000  # puzzles that they are drawn from
    learning_rate: float = 3e-3
    rising_steps: int = 50


def new_model(tokenizer: Any, seed: int) -> Any:
    """A Qwen2 of some 360,000 parameters with random weights, for this tokenizer."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=3,
            num_attention_heads=3,
            num_key_value_heads=3,
            max_position_embeddings=512,
            initializer_range=0.1,  # about 1 / sqrt(hidden_size): 0.02 is for wide models
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def warm_start(
    model: Any,
    tokenizer: Any,
    puzzle: Puzzle,
    settings: WarmStart,
    seed: int,
    tell: Callable[[str], None],
) -> None:
    """Train the model in place on worked solutions of the puzzle; `tell` hears of progress."""
    made = entries(puzzle.task, puzzle.config, seed + TRAINING_SEED)
    texts = _texts(puzzle, list(islice(made, settings.num_entries)), tokenizer, random.Random(seed))
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.01)
    model.train()
    start_s = time.perf_counter()
    for step, batch in enumerate(_batches(texts, settings, random.Random(seed)), start=1):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * _rate(step, settings)
        ids_bw, targets_bw = _padded(batch, tokenizer.pad_token_id)
        logits_bwv = model(input_ids=ids_bw).logits
        loss = cross_entropy(
            logits_bwv[:, :-1].flatten(0, 1), targets_bw[:, 1:].flatten(), ignore_index=IGNORED
        )
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % REPORT_EVERY == 0:
            spent_s = time.perf_counter() - start_s
            left_s = spent_s / step * (settings.num_steps - step)
            tell(f"step {step} of {settings.num_steps}: loss {loss:.3f}, {left_s:.0f} s left")
    model.eval()


@dataclass(frozen=True)
class Text:
    """A puzzle with its solution, in tokens."""

    ids: list[int]
    num_prompt_tokens: int


def _texts(puzzle: Puzzle, made: list[Entry], tokenizer: Any, rng: random.Random) -> Iterator[Text]:
    """Texts without end: of a puzzle drawn at random, a solution short enough to be learned."""
    while True:
        entry = rng.choice(made)
        prompt = tokenizer(puzzle.prompt(entry)).input_ids
        response = tokenizer(puzzle.work_out(entry, rng)).input_ids
        if len(response) < puzzle.max_response_tokens:
            yield Text([*prompt, *response, tokenizer.eos_token_id], len(prompt))


def _batches(
    texts: Iterator[Text], settings: WarmStart, rng: random.Random
) -> Iterator[list[Text]]:
    """A batch for each step, of texts of like length."""
    size = settings.batch_size
    for first in range(0, settings.num_steps, BATCHES_SORTED):
        drawn = sorted(islice(texts, BATCHES_SORTED * size), key=lambda text: len(text.ids))
        batches = [drawn[start : start + size] for start in range(0, len(drawn), size)]
        rng.shuffle(batches)
        yield from batches[: settings.num_steps - first]


def _padded(batch: list[Text], padding_id: int) -> tuple[Tensor, Tensor]:
    """Tokens, and those of them that are to be learned; padding and prompts are not."""
    width = max(len(text.ids) for text in batch)
    ids_bw = torch.full((len(batch), width), padding_id)
    targets_bw = torch.full((len(batch), width), IGNORED)
    for row, text in enumerate(batch):
        ids_bw[row, : len(text.ids)] = torch.tensor(text.ids)
        learned = slice(text.num_prompt_tokens, len(text.ids))
        targets_bw[row, learned] = ids_bw[row, learned]
    return ids_bw, targets_bw


def _rate(step: int, settings: WarmStart) -> float:
    """Share of the learning rate at a step, from 1: up in a line, then down in a line."""
    left = (settings.num_steps + 1 - step) / settings.num_steps
    return min(step / settings.rising_steps, left)
