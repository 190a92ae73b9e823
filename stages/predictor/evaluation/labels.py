"""What was observed of the prompts held out, and what was said of them?

Lengths are in tokens as recorded, a response at its cap counting as the cap; responses cut off from
outside are left out. The predictor's order is that of its medians, its value the expected length.
Samples of a prompt stand in a row, so that a label is a reduction over them.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from stages.lengths import table as lengths_table
from stages.predictor.backend import Bools, Floats, HeldOut, Ints, Observations
from stages.predictor.evaluation.measures import Forecast, Label
from stages.predictor.observations import Evidence

LABELS = {"one": "one sample", "mean": "mean", "longest": "longest"}


@dataclass(frozen=True)
class Samples:
    """The responses that labels are made of: prompts in order, each with one at least."""

    starts_p: Ints  # first sample of each prompt
    tokens_s: Floats  # as recorded, 1 where it is 0
    is_cut_s: Bools  # it would have been at least as long

    @property
    def samples_p(self) -> Ints:
        """Samples of each prompt."""
        return np.diff(self.starts_p, append=len(self.tokens_s))

    @property
    def prompt_s(self) -> Ints:
        """The prompt of each sample."""
        return np.repeat(np.arange(len(self.starts_p)), self.samples_p)


def make_labels(samples: Samples) -> dict[str, Label]:
    """Each of LABELS; leading axes of the samples are kept."""
    tokens_s, is_cut_s, starts_p = samples.tokens_s, samples.is_cut_s, samples.starts_p
    log_s = np.log(tokens_s)
    mean_p, mean_log_p = (
        np.add.reduceat(value_s, starts_p, axis=-1) / samples.samples_p
        for value_s in (tokens_s, log_s)
    )
    longest_p = np.maximum.reduceat(tokens_s, starts_p, axis=-1)
    is_any_cut_p = np.logical_or.reduceat(is_cut_s, starts_p, axis=-1)
    return {
        "one": Label(tokens_s[..., starts_p], log_s[..., starts_p], is_cut_s[..., starts_p]),
        "mean": Label(mean_p, mean_log_p, is_any_cut_p),
        "longest": Label(longest_p, np.log(longest_p), is_any_cut_p),
    }


@dataclass(frozen=True)
class Judged:
    """Held-out prompts with a response that was not aborted."""

    table: pl.DataFrame  # schema Heldout; a row a prompt
    samples: Samples
    labels: dict[str, Label]
    forecasts: dict[str, Forecast]  # the predictor's, by label
    observations: Observations  # of these prompts, aborted responses included
    held_out: HeldOut  # of these prompts
    size_p: Floats  # of the prompts: tokens, or characters where tokens are not known of all


def judge(evidence: Evidence, held_out: HeldOut) -> Judged:
    """Set predictions beside observations, leaving out prompts that are not held out."""
    whole = evidence.observations
    is_kept_s = ~evidence.is_aborted_s & (held_out.fold_p >= 0)[whole.prompt_s]
    is_kept_p = np.bincount(whole.prompt_s, is_kept_s, len(whole.texts)) > 0
    prompts = evidence.prompts.filter(pl.Series(is_kept_p))
    prediction = type(held_out.prediction)(*(value_p[is_kept_p] for value_p in held_out.prediction))
    held_out = HeldOut(prediction, held_out.fold_p[is_kept_p])
    samples_p = np.bincount(whole.prompt_s, is_kept_s, len(whole.texts))[is_kept_p].astype(np.int64)
    samples = Samples(
        np.concatenate(([0], np.cumsum(samples_p)[:-1])).astype(np.int64),
        np.maximum(evidence.tokens_s[is_kept_s], 1).astype(np.float64),
        whole.is_censored_s[is_kept_s],
    )
    table = _table(prompts, held_out, samples, evidence.tokens_s[is_kept_s])
    mean_p, longest_p = (table[n].to_numpy() for n in ("expected_tokens", "expected_longest"))
    order_p = prediction.order()
    log_median_p = np.minimum(prediction.mu_p, np.log(table["cap"].to_numpy()))
    of_mean = Forecast(order_p, mean_p, log_median_p)
    of_longest = Forecast(order_p, longest_p, np.log(longest_p))
    return Judged(
        table, samples, make_labels(samples),
        {"one": of_mean, "mean": of_mean, "longest": of_longest},
        whole.subset(is_kept_p), held_out, _sizes(prompts),
    )  # fmt: skip


def _table(
    prompts: pl.DataFrame, held_out: HeldOut, samples: Samples, tokens_s: Ints
) -> pl.DataFrame:
    starts_p = samples.starts_p
    lengths = held_out.prediction.with_cap(prompts["cap"].to_numpy())
    table = prompts.select("prompt_id", "prompt_hash", "cap").with_columns(
        **lengths_table.columns(lengths),
        fold=held_out.fold_p,
        num_samples=samples.samples_p,
        num_capped=np.add.reduceat(samples.is_cut_s.astype(np.int64), starts_p),
        observed_mean=np.add.reduceat(tokens_s, starts_p) / samples.samples_p,
        observed_longest=np.maximum.reduceat(tokens_s, starts_p),
    )
    completed = lengths_table.complete(table.with_columns(samples_per_prompt="num_samples"))
    return table.with_columns(completed.select("expected_tokens", "expected_longest"))


def _sizes(prompts: pl.DataFrame) -> Floats:
    tokens = prompts["prompt_tokens"]
    known = prompts["prompt"].str.len_chars() if tokens.null_count() else tokens
    return known.cast(pl.Float64).to_numpy()
