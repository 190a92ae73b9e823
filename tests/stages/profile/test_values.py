"""Values as tools write them, and the one line about those that cannot be."""

import math
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from stages.profile.values import finish_reasons, flags, names, numbers, response_text
from stages.tables.errors import AspError

ROWS = pl.Series([10, 11, 12])


def test_missing_numbers_are_null_or_nan() -> None:
    read = numbers(pl.Series([1.0, math.nan, None]), "f", ROWS, is_whole=True)
    assert read.to_list() == [1, None, None]
    assert read.dtype == pl.Int64


@pytest.mark.parametrize(
    ("values", "met"),
    [
        ([1.0, math.nan, 2.0], "1 of 3 values are not .*, first in row 11 .*: NaN;"),
        ([1, None, None], "2 of 3 .* row 11, 12 .*: null, null;"),
        ([-1, 1, -2], "2 of 3 .* row 10, 12 .*: -1, -2;"),
        ([1.0, 2.5, 3.0], "row 11 .*: 2.5;"),
        ([math.inf, 1.0, 1.0], "row 10 .*: inf;"),
        (["7", "8", "9"], "holds String, but numbers are needed"),
    ],
)
def test_a_token_count_that_is_none_is_told_with_row_and_value(values: list[Any], met: str) -> None:
    with pytest.raises(AspError, match=met) as caught:
        numbers(pl.Series(values), "f: column 'n'", ROWS, is_whole=True, is_required=True)
    assert str(caught.value).startswith("f: column 'n'")


def test_flags_are_booleans_or_ones_and_zeros() -> None:
    assert flags(pl.Series([True, None]), "f", ROWS).to_list() == [True, None]
    assert flags(pl.Series([1.0, 0.0, math.nan]), "f", ROWS).to_list() == [True, False, None]
    with pytest.raises(AspError, match="f holds Int64, but true and false"):
        flags(pl.Series([0, 2]), "f", ROWS)


def test_engines_name_the_ends_differently() -> None:
    read = finish_reasons(pl.Series(["EOS", " length", None]), "f", ROWS)
    assert read.to_list() == ["stop", "length", None]
    with pytest.raises(AspError, match=r"f: 1 of 3 values are none of .*: odd"):
        finish_reasons(pl.Series(["stop", "odd", None]), "f", ROWS)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], ["1", "2"]),
        ([1.0, None], ["1", None]),
        ([1.5, 2.0], ["1.5", "2.0"]),
        (["a", None], ["a", None]),
    ],
)
def test_names_of_any_type_compare_as_text(values: list[Any], expected: list[Any]) -> None:
    assert names(pl.Series(values)).to_list() == expected


def test_only_what_the_assistant_wrote_counts() -> None:
    episode = [
        {"role": "assistant", "content": "let me see", "tool_calls": [{"name": "add"}]},
        {"role": "tool", "content": "a very long result"},
        {"role": "assistant", "content": "three"},
    ]
    assert response_text(episode) == 'let me see[{"name": "add"}]three'
    assert response_text("text") == "text"
    assert response_text(None) is None
    assert response_text([1]) is None


@pytest.mark.parametrize("value", [2.0**63, 1e300, 2**53 + 2, 2**63 - 1])
def test_whole_numbers_beyond_what_is_exact_are_refused(value: float) -> None:
    with pytest.raises(AspError, match="not whole numbers from 0 to 2\\^53"):
        numbers(pl.Series([value]), "f", ROWS[:1], is_whole=True)


def test_names_that_are_bytes_or_times() -> None:
    assert names(pl.Series([b"\xff", None])).to_list() == ["\"b'\\\\xff'\"", None]
    assert names(pl.Series([timedelta(1)])).to_list() == ['"1 day, 0:00:00"']
