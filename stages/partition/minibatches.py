"""What is predicted of each minibatch?"""

import numpy as np
import polars as pl

from stages.costs.model import CostModel
from stages.lengths import table as lengths_table
from stages.partition.programme import Floats, Ints
from stages.tables.errors import log
from stages.tables.schemas import Groups, Lengths, Minibatches
from stages.tables.utilization import utilization


def prompt_tokens(lengths: pl.DataFrame) -> Floats:
    """Length of each prompt, 0 where it is not known."""
    if "prompt_tokens" not in lengths.columns:
        return np.zeros(len(lengths))
    return lengths["prompt_tokens"].cast(pl.Float64).fill_null(0.0).to_numpy()


def describe_minibatches(
    ordered: pl.DataFrame, ends: Ints, num_samples: int, model: CostModel
) -> pl.DataFrame:
    """The minibatches table for prompts in order, cut at `ends`.

    Extra columns of the lengths table become lists in the order of prompt_ids.

    Args:
        ordered: A complete lengths table, its rows in the order of the minibatches.
        ends: Where each minibatch ends in that order; the last is the number of prompts.
        num_samples: Responses per prompt, n.
        model: Predicts seconds.
    """
    starts = np.concatenate(([0], ends[:-1]))
    sizes = ends - starts
    tokens_b = num_samples * np.add.reduceat(ordered["expected_tokens"].to_numpy(), starts)
    samples_b = num_samples * sizes
    longest_b, seconds_b = _expected_seconds(
        ordered, np.append(starts, len(ordered)), num_samples, model
    )
    held = ordered.select(
        pl.Series("minibatch_id", np.repeat(np.arange(len(ends)), sizes)),
        pl.col("prompt_id").alias("prompt_ids"),
        pl.col("prompt_hash").alias("prompt_hashes"),
        *_extra_columns(ordered),
    )
    lists = held.group_by("minibatch_id", maintain_order=True).agg(pl.all())
    return lists.with_columns(
        pl.lit("head", dtype=Minibatches.kind.dtype).alias("kind"),
        pl.lit(0, dtype=pl.Int64).alias("round"),
        pl.Series("num_prompts", sizes),
        pl.Series("num_samples", samples_b),
        pl.Series("predicted_tokens", tokens_b),
        pl.Series("predicted_longest", longest_b),
        pl.Series("predicted_seconds", seconds_b),
        pl.Series("predicted_utilization", utilization(tokens_b, samples_b * longest_b)),
    )


def _expected_seconds(
    ordered: pl.DataFrame, bounds: Ints, num_samples: int, model: CostModel
) -> tuple[Floats, Floats]:
    """Expected longest [tokens] and expected seconds of the sets of prompts between bounds."""
    distribution = lengths_table.distribution(ordered)
    longest_b = distribution.expected_longest_of_sets(num_samples, bounds)
    square_b = None
    if model.kv_seconds > 0:
        square_b = distribution.squared().expected_longest_of_sets(num_samples, bounds)
    held_b = num_samples * np.add.reduceat(prompt_tokens(ordered), bounds[:-1])
    sequences_b = (num_samples * np.diff(bounds)).astype(np.float64)
    return longest_b, model.minibatch_seconds(longest_b, sequences_b, held_b, square_b)


def _extra_columns(lengths: pl.DataFrame) -> list[str]:
    """The columns that pass through, without those that mean something else in later tables."""
    known = set(Lengths.column_names())
    if "domain" in lengths.columns and lengths["domain"].null_count() < len(lengths):
        known.remove("domain")
    extra = [c for c in lengths.columns if c not in known]
    clashing = [c for c in extra if c in Groups.column_names()]
    if clashing:
        log.warning(
            "column %s of the lengths table is left out: its name has a meaning of its own in the "
            "tables of the next stages; rename it to keep it", ", ".join(map(repr, clashing)),
        )  # fmt: skip
    return [c for c in extra if c not in clashing]
