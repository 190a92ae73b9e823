"""Derived columns that need no mathematics, computed where a table written by hand lacks them.

Those of the lengths table are in `stages/lengths/table.py`.
"""

from functools import partial

import polars as pl


def _complete(frame: pl.DataFrame, derived: dict[str, pl.Expr]) -> pl.DataFrame:
    return frame.with_columns(**{n: e for n, e in derived.items() if n not in frame.columns})


_MINIBATCH = {
    "kind": pl.lit("head"),
    "round": pl.lit(0),
    "num_prompts": pl.col("prompt_ids").list.len(),
}

complete_profile = partial(_complete, derived={"policy_version": pl.lit(0)})
complete_minibatches = partial(_complete, derived=_MINIBATCH)
complete_groups = partial(_complete, derived=_MINIBATCH | {"epoch": pl.lit(0)})
