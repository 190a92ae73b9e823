"""Derived columns: computed when absent, trusted when present, the longest redone for another n."""

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import polars as pl

from stages.lengths.distribution import LengthDistribution
from stages.lengths.table import columns, complete, distribution
from stages.tables.io import conform
from stages.tables.schemas import Lengths

Make = Callable[..., pl.DataFrame]


def test_ten_lines_of_polars_become_a_lengths_table(make_lengths: Make) -> None:
    frame = conform(make_lengths(7), Lengths, "x", complete)
    assert frame.columns == Lengths.column_names()
    assert frame["samples_per_prompt"].to_list() == [1] * 7
    np.testing.assert_allclose(frame["expected_longest"], frame["expected_tokens"], rtol=1e-4)
    assert (frame["p50"] < frame["p90"]).all()


def test_present_columns_are_trusted(make_lengths: Make) -> None:
    frame = make_lengths(3).with_columns(expected_tokens=pl.lit(17.0))
    assert conform(frame, Lengths, "x", complete)["expected_tokens"].to_list() == [17.0] * 3


def test_another_n_computes_the_longest_anew(make_lengths: Make) -> None:
    once = conform(make_lengths(5), Lengths, "x", complete)
    eight = complete(once, samples_per_prompt=8)
    assert eight["samples_per_prompt"].to_list() == [8] * 5
    assert (eight["expected_longest"] > 1.5 * once["expected_longest"]).all()
    assert complete(eight, samples_per_prompt=8).equals(eight)


def test_each_prompt_has_its_own_n(make_lengths: Make) -> None:
    frame = make_lengths(4).with_columns(samples_per_prompt=pl.Series([1, 8, 1, 8]))
    mixed = conform(frame, Lengths, "x", complete)["expected_longest"]
    for n, rows in ((1, [0, 2]), (8, [1, 3])):
        alone = complete(conform(make_lengths(4), Lengths, "x", complete), samples_per_prompt=n)
        np.testing.assert_allclose(mixed[rows], alone["expected_longest"][rows])


def test_a_tail_written_by_hand_counts(make_lengths: Make) -> None:
    """nu is optional, row by row; a heavy tail lengthens the expected longest."""
    frame = make_lengths(4).with_columns(nu_above=pl.Series([2.0, None, 2.0, None]))
    heavy = conform(frame, Lengths, "x", complete)["expected_longest"].to_numpy()
    normal = conform(make_lengths(4), Lengths, "x", complete)["expected_longest"].to_numpy()
    np.testing.assert_allclose(heavy[[1, 3]], normal[[1, 3]])
    assert (heavy[[0, 2]] > 1.05 * normal[[0, 2]]).all()


def test_columns_give_the_distribution_back() -> None:
    lengths = LengthDistribution.of([3.0, 4.0], 0.5, 100, [np.nan, 0.3], np.inf, [2.0, np.inf])
    frame = pl.DataFrame(columns(lengths)).with_columns(cap=pl.lit(100))
    assert frame["sample_sigma"].to_list() == [None, 0.3]
    assert frame["nu_above"].to_list() == [2.0, None]
    for field in fields(lengths):
        np.testing.assert_array_equal(
            getattr(distribution(frame), field.name), getattr(lengths, field.name)
        )
