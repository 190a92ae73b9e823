"""`log_completions=True` makes TRL's GRPOTrainer write `OUTPUT_DIR/completions/*.parquet`.

Columns `step`, `prompt`, `completion`, the rewards, `advantage`; prompts and completions stand as
the data set has them, text or messages, of which the model's own are counted. No length, no finish
reason. `policy_version` is the step less 1. With several optimiser steps a generation each of their
files holds the same responses again; they are taken once.

Read in trl/trainer/grpo_trainer.py, `log` (1.16).
"""

import polars as pl

from stages.profile.logs.layout import FIELDS, Layout

TRL = Layout(
    name="trl",
    about=__doc__,
    columns=FIELDS | {"response": ("completion",), "step": ("step",), "advantage": ("advantage",)},
    signs=frozenset({"step", "prompt", "completion"}),
    never=frozenset({"response", "response_tokens"}),
    has_lengths=False,
    sample="made by the trainer's code",
)


def without_relogged(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Drop the steps that hold the very rows of the step before; return how many rows that were.

    TRL keeps a generation batch in its log until the next one replaces it.
    """
    kept: list[pl.DataFrame] = []
    content: pl.DataFrame | None = None
    for part in frame.partition_by("step", maintain_order=True):
        last, content = content, part.drop("file", "row", "step", "policy_version")
        is_again = part["step"][0] is not None and last is not None and content.equals(last)
        if not is_again:
            kept.append(part)
    remaining = pl.concat(kept) if kept else frame
    return remaining, len(frame) - len(remaining)
