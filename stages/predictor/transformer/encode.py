"""Which tokens of each prompt does the base model read?

What it would be given for the prompt: with a chat template the conversation up to where the answer
starts, the text being one user message; without, the text. A prompt that is too long loses its
middle: instructions stand at either end, and so does what the template writes.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jinja2 import TemplateError

from stages.predictor.transformer.base import Base
from stages.tables.errors import AspError, log

CHUNK = 1024  # texts tokenised at once

Tokens = list[int]


def encode(base: Base, texts: Sequence[str], max_prompt_tokens: int) -> list[Tokens]:
    """The tokens of each prompt, at most `max_prompt_tokens`; says how many were cut.

    Raises:
        AspError: The chat template refuses a user message.
    """
    prompts: list[Tokens] = []
    for start in range(0, len(texts), CHUNK):
        prompts += _encode(base.tokenizer, list(texts[start : start + CHUNK]))
    limit = min(max_prompt_tokens, base.longest_input() or max_prompt_tokens)
    num_cut = sum(len(ids) > limit for ids in prompts)
    if num_cut:
        log.warning(
            "%d of %d prompts are longer than %d tokens (--max-prompt-tokens, or what the base "
            "model was made for): it reads their beginning and end", num_cut, len(prompts), limit,
        )  # fmt: skip
    return [cut_middle(ids, limit) or [0] for ids in prompts]


def _encode(tokenizer: Any, texts: list[str]) -> list[Tokens]:
    if not getattr(tokenizer, "chat_template", None):
        return list(tokenizer(texts, verbose=False)["input_ids"])
    try:
        rendered = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
            )
            for text in texts
        ]
    except TemplateError as error:
        raise AspError(
            f"the base model's chat template refuses a user message: {error}; "
            "give another --base-model"
        ) from None
    # The template writes the special tokens itself.
    encoded = tokenizer(rendered, add_special_tokens=False, verbose=False)
    return list(encoded["input_ids"])


def cut_middle(ids: Tokens, limit: int) -> Tokens:
    """The beginning and the end of a prompt, `limit` tokens in all."""
    if len(ids) <= limit:
        return ids
    at_end = limit - limit // 2
    return ids[: limit // 2] + ids[-at_end:]


def batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Positions of prompts that are read together, the longest first.

    A batch is as wide as its longest prompt, so prompts of like length share one: of at most
    `max_tokens` with the padding, or a single prompt.
    """
    found: list[list[int]] = []
    for at in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if found and lengths[found[-1][0]] * (len(found[-1]) + 1) <= max_tokens:
            found[-1].append(at)
        else:
            found.append([at])
    return found


def pad(prompts: Sequence[Tokens], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask (b prompts, t tokens), padded on the right."""
    width = max(map(len, prompts))
    # Any id pads: the mask hides it.
    ids_bt = [list(ids) + [0] * (width - len(ids)) for ids in prompts]
    mask_bt = [[1] * len(ids) + [0] * (width - len(ids)) for ids in prompts]
    return torch.tensor(ids_bt, device=device), torch.tensor(mask_bt, device=device)


def pool(state_btd: torch.Tensor, mask_bt: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """One state a prompt, float32: a causal model's last, since it alone has seen all of it.

    An encoder's tokens have all seen everything, and none of them is made to sum it up: their mean.
    """
    mask_bt = mask_bt.to(state_btd.device)
    if is_causal:
        rows = torch.arange(len(state_btd), device=state_btd.device)
        return state_btd[rows, mask_bt.sum(1) - 1].float()
    weight_bt1 = mask_bt[:, :, None].float()
    return (state_btd.float() * weight_bt1).sum(1) / weight_bt1.sum(1)
