"""What becomes of the prompts that do not fill a train batch?

Most trainers skip a partial last batch (verl by drop_last, TRL by RepeatSampler). With P prompts a
batch and R rows an epoch, R mod P prompts are at stake; each rule accounts for every one of them:

- keep: the file holds each prompt once an epoch; the trainer skips the last rows of the file;
- repeat: each epoch is filled up with its own first prompts, again from the first if need be;
- drop: the last R mod P prompts of each epoch are left out of the file.

repeat and drop make every epoch start a batch. keep cannot, if the file holds several epochs.
"""

from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from stages.tables.errors import AspError

Rule = Literal["keep", "repeat", "drop"]
MOST_REPEATS = 1_000  # of each prompt in one train batch: more is a slip of the keyboard


@dataclass(frozen=True)
class Treated:
    """The plan as it is written, and the account of what the rule touched."""

    plan: pl.DataFrame
    rule: Rule
    num_touched: int  # rows: skipped by the trainer, repeated, or left out
    account: list[dict[str, Any]]  # by epoch: where the rows are; for drop: which prompts


def treat(plan: pl.DataFrame, train_batch_size: int, rule: Rule) -> Treated:
    """Apply a rule to a plan.

    Raises:
        AspError: drop would leave an epoch without a row; repeat would fill a train batch with
            hardly anything but repeats.
    """
    if rule == "keep":
        return _keep(plan, train_batch_size)
    pieces: list[pl.DataFrame] = []
    account: list[dict[str, Any]] = []
    for (epoch,), rows in plan.group_by("epoch", maintain_order=True):
        rest = len(rows) % train_batch_size
        if not rest:
            pieces.append(rows)
        elif rule == "repeat":
            missing = train_batch_size - rest
            if missing > MOST_REPEATS * len(rows):
                raise AspError(
                    f"--remainder repeat: epoch {epoch} has {len(rows)} prompts, which would each "
                    f"be repeated {missing // len(rows)} times to fill a train batch of "
                    f"{train_batch_size}; give a smaller --train-batch-size"
                )
            first_row = sum(map(len, pieces)) + len(rows)
            pieces += [rows, _first_rows(rows, missing)]
            account.append({"epoch": epoch, "first_row": first_row, "num_rows": missing})
        else:
            kept = rows.head(len(rows) - rest)
            if kept.is_empty():
                raise AspError(
                    f"--remainder drop: epoch {epoch} has {len(rows)} prompts, less than one train "
                    f"batch of {train_batch_size}, so nothing would be left; give a smaller "
                    "--train-batch-size, or --remainder repeat"
                )
            pieces.append(kept)
            account.append({"epoch": epoch, "prompt_ids": rows["prompt_id"].tail(rest).to_list()})
    num_touched = sum(entry.get("num_rows", len(entry.get("prompt_ids", ()))) for entry in account)
    return Treated(pl.concat(pieces), rule, num_touched, account)


def _keep(plan: pl.DataFrame, train_batch_size: int) -> Treated:
    rest = len(plan) % train_batch_size
    epochs = plan["epoch"].tail(rest)
    account = [
        {"epoch": epoch, "first_row": len(plan) - rest + start, "num_rows": count}
        for epoch, start, count in _runs(epochs)
    ]
    return Treated(plan, "keep", rest, account)


def _runs(epochs: pl.Series) -> list[tuple[int, int, int]]:
    """Epoch, first index and length of each run of equal epochs."""
    if epochs.is_empty():
        return []
    frame = pl.DataFrame({"epoch": epochs}).with_row_index("row")
    runs = frame.group_by("epoch", maintain_order=True).agg(pl.col("row").min(), pl.len())
    return [(int(epoch), int(row), int(count)) for epoch, row, count in runs.iter_rows()]


def _first_rows(rows: pl.DataFrame, count: int) -> pl.DataFrame:
    """The first `count` rows, starting over as often as needed, marked as repeats."""
    index = pl.int_range(count, eager=True) % len(rows)
    return rows[index.to_list()].with_columns(is_repeat=pl.lit(True))
