"""The lengths table's derived columns, computed where a table written by hand lacks them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.lengths.distribution import LengthDistribution

PARAMETERS = ("mu", "sigma", "cap", "sample_sigma", "nu_below", "nu_above")


def distribution(frame: pl.DataFrame) -> LengthDistribution:
    """The distributions that the rows of a lengths table describe.

    Args:
        frame: At least mu, sigma and cap; the other PARAMETERS are as null where absent.
    """
    unknown = {"sample_sigma": np.nan, "nu_below": np.inf, "nu_above": np.inf}
    columns = [
        frame.get_column(name).cast(pl.Float64).fill_null(unknown.get(name, np.nan)).to_numpy()
        if name in frame.columns
        else unknown[name]
        for name in PARAMETERS
    ]
    return LengthDistribution.of(*columns)


def columns(lengths: LengthDistribution) -> dict[str, pl.Series]:
    """The PARAMETERS but the cap as columns of a table."""
    return {
        "mu": pl.Series(lengths.mu_p),
        "sigma": pl.Series(lengths.sigma_p),
        "sample_sigma": pl.Series(lengths.sample_sigma_p).fill_nan(None),
        "nu_below": _finite(lengths.nu_below_p),
        "nu_above": _finite(lengths.nu_above_p),
    }


def _finite(nu_p: NDArray[np.float64]) -> pl.Series:
    return pl.Series(np.where(np.isfinite(nu_p), nu_p, np.nan)).fill_nan(None)


def complete(frame: pl.DataFrame, samples_per_prompt: int | None = None) -> pl.DataFrame:
    """Fill in every derived column that is absent.

    Args:
        frame: At least mu, sigma and cap, valid.
        samples_per_prompt: The n of training. Where it differs from the table's own, the expected
            longest is computed anew; None keeps the table's, or 1 where it has none.
    """
    lengths = distribution(frame)
    derived: dict[str, Callable[[], NDArray[Any]]] = {
        "expected_tokens": lengths.expected_tokens,
        "p50": lambda: lengths.quantile(0.5),
        "p90": lambda: lengths.quantile(0.9),
        "p_cap": lengths.cap_risk,
        "source": lambda: np.full(len(frame), "predicted"),
    }
    absent = {
        name: pl.Series(make()) for name, make in derived.items() if name not in frame.columns
    }
    frame = frame.with_columns(**absent)
    if "samples_per_prompt" not in frame.columns:
        frame = frame.with_columns(samples_per_prompt=pl.lit(1, dtype=pl.Int64))
        frame = frame.drop("expected_longest", strict=False)
    if samples_per_prompt is not None:
        is_same = (frame.get_column("samples_per_prompt") == samples_per_prompt).all()
        if not is_same:
            frame = frame.with_columns(
                samples_per_prompt=pl.lit(samples_per_prompt, dtype=pl.Int64)
            ).drop("expected_longest", strict=False)
    if "expected_longest" not in frame.columns:
        samples_p = frame.get_column("samples_per_prompt").to_numpy()
        frame = frame.with_columns(expected_longest=expected_longest(lengths, samples_p))
    return frame


def expected_longest(lengths: LengthDistribution, samples_p: NDArray[np.int64]) -> pl.Series:
    """Of each prompt's own n; prompts may differ in it."""
    longest_p = np.empty(len(lengths))
    for n in np.unique(samples_p):
        rows = samples_p == n
        longest_p[rows] = lengths[rows].expected_longest(int(n))
    return pl.Series(longest_p)
