"""How many responses of which prompts are worth asking for, and in which order?

Many prompts with few responses: for learning how length hangs on the prompt, eight responses of one
prompt say little more than one of each of two prompts (docs/decisions/0025-sample-of-a-profile.md).
So each prompt is asked once; a few are asked eight times, which shows how much of the length is
chance, and stand evenly among the first. When no other prompts are left all are asked once more.
Wherever the profile ends, it is a fair sample.
"""

import polars as pl

from stages.profile.engine import Request
from stages.profile.sampling import different, in_fair_order
from stages.tables.errors import log
from stages.tables.prompt_survey import PromptFile
from stages.tables.prompts import normalised_text

NUM_OFTEN = 64  # prompts that are asked SAMPLES_OFTEN times
SAMPLES_OFTEN = 8
SPACING = 16  # at most one of them among so many, where there are more
NUM_FIRST = 32  # prompts whose first responses tell what the profile will cost


def design(
    prompts: pl.DataFrame, num_prompts: int | None, samples_per_prompt: int | None, seed: int
) -> pl.DataFrame:
    """Choose prompts and how many responses of each.

    Args:
        prompts: A Prompts table. Of prompts that are equal but for case and white space one is
            asked.
        num_prompts: At most; None: all.
        samples_per_prompt: The same number for each; None: as above.
        seed: Of the choice.

    Returns:
        Prompts in the order in which they are asked, every beginning of which is stratified, with
        the columns num_samples and, of these, num_at_once: asked before the next prompt is.
    """
    candidates = in_fair_order(unlike(prompts), seed)
    num_like = len(different(prompts)) - len(candidates)
    if num_like:
        log.info("%d prompts equal others but for case and white space; not asked", num_like)
    asked = candidates.head(len(candidates) if num_prompts is None else num_prompts)
    if samples_per_prompt is not None:
        number = pl.lit(samples_per_prompt, pl.Int64)
        return asked.with_columns(num_samples=number, num_at_once=number)
    spacing = min(max(len(asked) // NUM_OFTEN, 1), SPACING)
    place = pl.int_range(1, pl.len() + 1)
    is_often = (place % spacing == 0) & (place <= NUM_OFTEN * spacing)
    few = 2 if len(asked) == len(candidates) else 1
    return asked.with_columns(
        num_samples=pl.when(is_often).then(SAMPLES_OFTEN).otherwise(few).cast(pl.Int64),
        num_at_once=pl.when(is_often).then(SAMPLES_OFTEN).otherwise(1).cast(pl.Int64),
    )


def unlike(prompts: pl.DataFrame) -> pl.DataFrame:
    """The different prompts, of those equal but for case and white space one, whatever the order.

    Numbers are not looked through: prompts that differ in them are different questions.
    """
    texts = different(prompts)
    normal = [normalised_text(text) for text in texts.get_column("prompt")]
    kept = texts.with_columns(pl.Series("__normal", normal)).sort("prompt_hash")
    return kept.unique("__normal", keep="first").drop("__normal").sort("prompt_id")


def requests_for(asked: pl.DataFrame, prompts: PromptFile) -> list[Request]:
    """The requests in the order they are made.

    First one of each of the first prompts, from which the cost is told.
    """
    ids, at_once, samples = (
        asked.get_column(name).to_list() for name in ("prompt_id", "num_at_once", "num_samples")
    )
    keys = [
        *((prompt_id, 0) for prompt_id in ids[:NUM_FIRST]),
        *((p, sample) for p, number in zip(ids, at_once, strict=True) for sample in range(number)),
        *((p, sample) for p, number in zip(ids, samples, strict=True) for sample in range(number)),
    ]
    return [
        Request(prompt_id, prompts.raw[prompt_id], sample)
        for prompt_id, sample in dict.fromkeys(keys)
    ]
