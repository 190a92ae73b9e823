"""Which column is what: detection, and names that the user gives."""

import pytest

from stages.profile.columns import Layout, detect_layout, find_columns
from stages.tables.errors import AspError


@pytest.mark.parametrize(
    ("columns", "layout"),
    [
        ("prompt response_tokens model", "plain"),
        ("prompt response", "plain"),
        ("input output gts score step", "verl"),
        ("input output gts score step uid", "verl"),
        ("step prompt completion reward advantage", "trl"),
        ("step prompt completion response_tokens", "plain"),
        ("prompt completion", "plain"),
        ("input output prompt response", "plain"),
        ("", "plain"),
    ],
)
def test_the_layout_is_told_from_the_columns(columns: str, layout: Layout) -> None:
    assert detect_layout(columns.split()) == layout


def test_a_named_column_goes_before_the_usual_one() -> None:
    columns = ["prompt", "question", "response_tokens"]
    found = find_columns(columns, "plain", {"prompt": "question"}, "f")
    assert found == {"prompt": "question", "tokens": "response_tokens"}


def test_the_cap_is_found_under_the_name_of_our_own_table_too() -> None:
    assert find_columns(["max_response_tokens"], "plain", {}, "f") == {
        "max_tokens": "max_response_tokens"
    }


def test_a_named_column_must_be_there() -> None:
    with pytest.raises(AspError, match=r"f: no column 'q' \(--rollouts-sample-index-column\)"):
        find_columns(["prompt"], "plain", {"sample_index": "q"}, "f")
