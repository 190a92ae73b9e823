"""The lengths table's derived columns, computed where a table written by hand lacks them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.lengths import lognormal


def complete(frame: pl.DataFrame, samples_per_prompt: int | None = None) -> pl.DataFrame:
    """Fill in every derived column that is absent.

    Args:
        frame: At least mu, sigma, sample_sigma (nulls allowed) and cap, valid.
        samples_per_prompt: The n of training. Where it differs from the table's own, the expected
            longest is computed anew; None keeps the table's, or 1 where it has none.
    """
    mu_p, sigma_p, cap_p = (
        frame.get_column(name).cast(pl.Float64).to_numpy() for name in ("mu", "sigma", "cap")
    )
    derived: dict[str, Callable[[], NDArray[Any]]] = {
        "expected_tokens": lambda: lognormal.expected_tokens(mu_p, sigma_p, cap_p),
        "p50": lambda: lognormal.quantile(mu_p, sigma_p, cap_p, 0.5),
        "p90": lambda: lognormal.quantile(mu_p, sigma_p, cap_p, 0.9),
        "p_cap": lambda: lognormal.cap_risk(mu_p, sigma_p, cap_p),
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
        frame = frame.with_columns(expected_longest=_expected_longest(frame))
    return frame


def sample_sigma(frame: pl.DataFrame) -> NDArray[np.float64]:
    """The sample_sigma column as an array, NaN where it is null."""
    return frame.get_column("sample_sigma").cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _expected_longest(frame: pl.DataFrame) -> pl.Series:
    """Prompts may differ in n: each n is computed for its own rows."""
    mu_p, sigma_p, cap_p, n_p = (
        frame.get_column(name).cast(pl.Float64).to_numpy()
        for name in ("mu", "sigma", "cap", "samples_per_prompt")
    )
    chance_p = sample_sigma(frame)
    longest_p = np.empty(len(frame))
    for n in np.unique(n_p):
        rows = n_p == n
        longest_p[rows] = lognormal.expected_longest(
            mu_p[rows], sigma_p[rows], cap_p[rows], int(n), chance_p[rows]
        )
    return pl.Series(longest_p)
