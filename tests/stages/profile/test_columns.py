"""Which column is what: names that the user gives, and the usual ones."""

import pytest

from stages.profile.columns import find_columns
from stages.profile.logs.plain import PLAIN
from stages.tables.errors import AspError


def test_a_named_column_goes_before_the_usual_one() -> None:
    columns = ["prompt", "question", "response_tokens"]
    found = find_columns(columns, PLAIN, {"prompt": "question"}, "f")
    assert found == {"prompt": "question", "tokens": "response_tokens"}


def test_the_cap_is_found_under_the_name_of_our_own_table_too() -> None:
    assert find_columns(["max_response_tokens"], PLAIN, {}, "f") == {
        "max_tokens": "max_response_tokens"
    }


def test_a_named_column_must_be_there() -> None:
    with pytest.raises(AspError, match=r"f: no column 'q' \(--rollouts-sample-index-column\)"):
        find_columns(["prompt"], PLAIN, {"sample_index": "q"}, "f")
