"""Every way a table can break its schema, and the line it gets."""

import polars as pl
import pytest

from stages.tables.derived import complete_groups
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import TABLES, Groups, Lengths, Minibatches
from stages.tables.validation import cast_losslessly


def lengths(**changes: object) -> pl.DataFrame:
    columns = {
        "prompt_id": [0, 1, 2],
        "mu": [1.0, 2.0, 3.0],
        "sigma": [0.5, 0.5, 0.5],
        "cap": [8, 8, 8],
    }
    return pl.DataFrame(columns | changes)


def groups(**changes: object) -> pl.DataFrame:
    columns = {
        "minibatch_id": [0, 1],
        "prompt_ids": [[0, 1], [2]],
        "num_samples": [2, 1],
        "predicted_tokens": [3.0, 1.0],
        "predicted_longest": [2.0, 1.0],
        "predicted_seconds": [1.0, 1.0],
        "predicted_utilization": [0.75, 1.0],
        "group_id": [0, 0],
        "position": [0, 1],
    }
    return pl.DataFrame(columns | changes)


def complete(frame: pl.DataFrame) -> pl.DataFrame:
    from stages.lengths.table import complete as complete_lengths

    return complete_lengths(frame)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mu": [1.0, float("nan"), 3.0]}, "column mu must not be NaN"),
        ({"mu": [1.0, float("inf"), 3.0]}, "column mu must be finite"),
        ({"mu": [1.0, None, 3.0]}, "column mu must not be null"),
        ({"sigma": [0.5, -0.5, 0.5]}, "column sigma must be at least 0"),
        ({"cap": [8, 0, 8]}, "column cap must be at least 1"),
        ({"prompt_id": [0, 1, 1]}, "prompt_id must occur once"),
        ({"prompt_id": [0, -1, 2]}, "column prompt_id must be at least 0"),
        ({"prompt_id": ["a", "b", "c"]}, "column 'prompt_id' holds String, but a whole number"),
        ({"cap": [8.0, 8.5, 8.0]}, "1 of 3 values are not, first in row 1"),
        ({"mu": ["1", "2", "3"]}, "column 'mu' holds String, but a number"),
        ({"source": ["predicted", "guessed", "observed"]}, "one of predicted, observed, blended"),
        ({"sample_sigma": [0.5, 0.6, 0.5]}, "sample sigma within sigma"),
        ({"p_cap": [0.1, 1.5, 0.1]}, "column p_cap must be at most 1"),
    ],
)
def test_a_broken_lengths_table_gets_one_line(changes: dict[str, object], words: str) -> None:
    with pytest.raises(AspError) as refusal:
        conform(lengths(**changes), Lengths, "lengths.parquet", complete)
    message = str(refusal.value)
    assert message.startswith("lengths.parquet: ")
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt_ids": [[0, 1], [1]]}, "prompt ids stand once"),
        ({"prompt_ids": [[0, 0], [1]]}, "prompt ids stand once"),
        ({"prompt_ids": [[0, None], [1]]}, "column prompt_ids must hold no null"),
        ({"prompt_ids": [[0.0, 0.5], [1.0]]}, "column 'prompt_ids' holds List(Float64)"),
        ({"num_prompts": [2, 2]}, "num prompts counts prompt ids"),
        ({"prompt_hashes": [["a"], ["b"]]}, "prompt hashes match prompt ids"),
        ({"position": [0, 0]}, "position stands once an epoch"),
        ({"group_id": [1, 0]}, "group id follows position"),
        ({"minibatch_id": [0, 0]}, "minibatch_id must occur once"),
        ({"kind": ["head", "body"]}, "one of head, tail"),
    ],
)
def test_a_broken_groups_table_gets_one_line(changes: dict[str, object], words: str) -> None:
    with pytest.raises(AspError, match=r"groups\.parquet") as refusal:
        conform(groups(**changes), Groups, "groups.parquet", complete_groups)
    assert words in str(refusal.value)


def test_the_message_names_rule_column_rows_values_and_count() -> None:
    frame = lengths(cap=[0, -3, 8])
    with pytest.raises(AspError) as refusal:
        conform(frame, Lengths, "my.parquet", complete)
    assert str(refusal.value) == (
        "my.parquet: not a valid lengths table: column cap must be at least 1, broken in 2 of 3 "
        "rows, first in row 0, 1 (from 0): cap=0, cap=-3"
    )


def test_a_missing_column_is_named_with_those_present() -> None:
    with pytest.raises(AspError, match="column 'sigma' is missing; it has prompt_id, mu, cap"):
        conform(lengths().drop("sigma"), Lengths, "my.parquet", complete)


def test_no_rows_is_an_error() -> None:
    with pytest.raises(AspError, match="has no rows"):
        conform(lengths().clear(), Lengths, "my.parquet", complete)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt32, pl.Int64, pl.Float32, pl.Float64])
def test_any_integer_or_float_type_is_taken_where_nothing_is_lost(dtype: pl.DataType) -> None:
    frame = lengths().with_columns(
        pl.col("prompt_id", "cap").cast(dtype), pl.col("mu").cast(pl.Float32)
    )
    assert conform(frame, Lengths, "x", complete).schema["cap"] == pl.Int64


def test_an_epoch_may_repeat_prompts_of_another() -> None:
    frame = groups(prompt_ids=[[0, 1], [1, 0]], epoch=[0, 1], num_samples=[2, 2])
    assert len(conform(frame, Groups, "x", complete_groups)) == 2


def test_extra_columns_pass_and_stand_last() -> None:
    frame = lengths().with_columns(difficulty=pl.lit("hard"))
    assert conform(frame, Lengths, "x", complete).columns[-1] == "difficulty"


def test_every_custom_rule_names_a_column() -> None:
    """The message shows the columns that stand in the rule's name."""
    from stages.tables.validation import _columns_of

    for schema in TABLES.values():
        for rule in schema._validation_rules(with_cast=False):
            if "|" not in rule and rule != "primary_key":
                named = [c for c in schema.column_names() if f"_{c}_" in f"_{rule}_"]
                assert named and _columns_of(rule, schema) == named, rule


def test_lists_in_a_message_stay_on_one_short_line() -> None:
    frame = pl.DataFrame({"prompt_ids": [[0.5] * 10_000]})
    with pytest.raises(AspError) as caught:
        cast_losslessly(frame, Minibatches, "x")
    assert "[0.5, 0.5" in str(caught.value) and len(str(caught.value)) < 500


def test_lists_of_nulls_fit_an_optional_list() -> None:
    frame = pl.DataFrame({"prompt_hashes": [[None, None]]})
    assert cast_losslessly(frame, Minibatches, "x")["prompt_hashes"].dtype == pl.List(pl.String)
