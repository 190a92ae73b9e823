"""Derived columns: computed when absent, trusted when present, the longest redone for another n."""

from collections.abc import Callable

import numpy as np
import polars as pl

from stages.lengths.table import complete
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
