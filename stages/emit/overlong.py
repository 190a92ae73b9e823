"""Which prompts are too long for the trainer, and what becomes of the plan without them?

A trainer that drops a prompt itself shifts every later batch. Here the places stay: the prompts
that are left at the end of an epoch move into the places of those that were taken out, so that the
last groups shrink and all others keep their sizes. A place is filled from a minibatch of like
length: both sides are paired in the order of their minibatches' longest predicted responses.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.emit.rows import UserRows
from stages.tables.errors import AspError, told_when_slow

OVERLONG_FILE = "overlong.jsonl"
PLACE = ("epoch", "group_id", "minibatch_id", "instance", "predicted_longest", "is_repeat")


@dataclass(frozen=True)
class Overlong:
    """The prompts that were taken out of a plan."""

    max_prompt_tokens: int
    tokenizer: str
    prompts: pl.DataFrame  # prompt_id, prompt_hash, prompt_tokens
    num_moved: int  # rows, over all epochs


def leave_out(
    plan: pl.DataFrame, rows: UserRows, hashes: list[str], max_prompt_tokens: int, tokenizer: str
) -> tuple[pl.DataFrame, Overlong]:
    """The plan without prompts of more tokens, as the model is given them, template included.

    Args:
        plan: Before anything was repeated or dropped.
        rows: The prompt file.
        hashes: Of its prompts.
        max_prompt_tokens: The trainer's limit.
        tokenizer: Directory or name.

    Raises:
        AspError: There is no such tokenizer, its template does not take a prompt, or no prompt
            would be left.
    """
    from stages.tokens.tokenizer import PromptTokenizer

    loaded = PromptTokenizer(tokenizer)
    with told_when_slow("counting the tokens of %d prompts", len(rows)):
        tokens = [len(loaded.encode_prompt(prompt)) for prompt in rows.prompts()]
    prompts = pl.DataFrame(
        {"prompt_id": range(len(rows)), "prompt_hash": hashes, "prompt_tokens": tokens}
    )
    is_overlong = prompts["prompt_tokens"] > max_prompt_tokens
    left, num_moved = take_out(plan, is_overlong)
    return left, Overlong(max_prompt_tokens, loaded.name, prompts.filter(is_overlong), num_moved)


def take_out(plan: pl.DataFrame, is_overlong_p: pl.Series) -> tuple[pl.DataFrame, int]:
    """The plan without those prompts, and the number of rows that moved.

    Args:
        plan: Before anything was repeated or dropped.
        is_overlong_p: By prompt_id.

    Raises:
        AspError: No prompt would be left.
    """
    if is_overlong_p.all():
        raise AspError(
            f"--max-prompt-tokens: all {len(is_overlong_p)} prompts are longer, so nothing would "
            "be left; give the limit of training, in tokens of --tokenizer"
        )
    pieces, num_moved = [], 0
    for _, rows in plan.group_by("epoch", maintain_order=True):
        is_out = is_overlong_p.gather(rows["prompt_id"]).to_numpy()
        num_left = int(np.count_nonzero(~is_out))
        places, longest = rows.head(num_left), rows["predicted_longest"].to_numpy()
        empty = np.flatnonzero(is_out[:num_left])
        movers = num_left + np.flatnonzero(~is_out[num_left:])
        source = np.arange(num_left)
        source[_by(longest, empty)] = _by(longest, movers)
        pieces.append(places.select(PLACE).hstack(rows.select("prompt_id", "prompt_hash")[source]))
        num_moved += len(movers)
    return pl.concat(pieces).select(plan.columns), num_moved


def _by(longest_r: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows in the order of their minibatches' longest, ties as they come."""
    return rows[np.argsort(longest_r[rows], kind="stable")]
