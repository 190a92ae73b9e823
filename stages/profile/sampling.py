"""Which prompts are asked, where not all are?

Stratified by length: the different prompts, sorted by characters, are cut into as many strata of
equal size as prompts are wanted, and one is drawn from each. So short and long prompts stand in
the profile as they stand in the file, with less chance in it than a plain draw has.
"""

import numpy as np
import polars as pl


def different(prompts: pl.DataFrame) -> pl.DataFrame:
    """The prompts of a Prompts table, of equal texts the first only, in the order of the file."""
    return prompts.unique("prompt_hash", keep="first", maintain_order=True)


def sample_prompts(prompts: pl.DataFrame, num_prompts: int | None, seed: int) -> pl.DataFrame:
    """Draw min(num_prompts, all) different prompts; None takes all.

    The draw rests on the texts and the seed alone: the same prompts in another order give the
    same choice. The result is in the order of the file.
    """
    candidates = different(prompts)
    if num_prompts is None or num_prompts >= len(candidates):
        return candidates
    ascending = candidates.sort(pl.col("prompt").str.len_chars(), "prompt_hash")
    edges = np.arange(num_prompts + 1) * len(ascending) // num_prompts
    drawn = np.random.default_rng(seed).integers(edges[:-1], edges[1:])
    return ascending[drawn].sort("prompt_id")
