"""Does a frame obey its schema, and if not, what is the one line to say?"""

from collections.abc import Iterable, Mapping
from typing import Any

import dataframely as dy
import polars as pl

from stages.tables.errors import AspError, first_few, shorten
from stages.tables.schemas import table_name

ROW = "row"  # name of the row-number column while a breach is being located
Dtype = Any  # a polars data type, as class or instance


def cast_losslessly(frame: pl.DataFrame, schema: type[dy.Schema], name: str) -> pl.DataFrame:
    """Cast the schema's columns to their types where every value survives, else AspError."""
    return frame.with_columns(
        _cast(frame.get_column(column), spec.dtype, name)
        for column, spec in schema.columns().items()
        if column in frame.columns
    )


def _cast(values: pl.Series, dtype: Dtype, name: str) -> pl.Series:
    is_null_lists = values.dtype == pl.List(pl.Null) and isinstance(dtype, pl.List)
    if values.dtype in (dtype, pl.Null) or is_null_lists:
        return values.cast(dtype)
    where = f"{name}: column {values.name!r}"
    if _family(values.dtype) != _family(dtype):
        raise AspError(f"{where} holds {values.dtype}, but {_in_words(dtype)} is needed; cast it")
    cast = values.cast(dtype, strict=False)
    is_kept = cast.cast(values.dtype, strict=False).eq_missing(values)
    if not is_kept.all():
        lost = values.filter(~is_kept).to_list()
        raise AspError(
            f"{where} holds {values.dtype}, but {_in_words(dtype)} is needed: "
            f"{len(lost)} of {len(values)} values are not, first in row "
            f"{first_few((~is_kept).arg_true())} (from 0): {first_few(lost)}"
        )
    return cast


def _family(dtype: Dtype) -> str:
    """The types among which a cast may lose nothing."""
    if isinstance(dtype, pl.List | pl.Array):
        return f"list of {_family(dtype.inner)}"
    if dtype.is_numeric() or dtype == pl.Null:
        return "number"
    return "text" if dtype in (pl.String, pl.Categorical, pl.Enum) else str(dtype)


def _in_words(dtype: Dtype) -> str:
    if isinstance(dtype, pl.Enum):
        return f"one of {', '.join(dtype.categories)}"
    if isinstance(dtype, pl.List):
        return f"a list of {dtype.inner}"
    return {pl.Int64: "a whole number", pl.Float64: "a number"}.get(dtype.base_type(), str(dtype))


def validate(frame: pl.DataFrame, schema: type[dy.Schema], name: str) -> None:
    """Check every rule of a schema on columns of its types; extra columns are ignored.

    Raises:
        AspError: A rule is broken; the line names the rule, its columns, the first rows with
            their values and the number of rows.
    """
    valid, _ = schema.filter(frame.select(schema.column_names()))
    if len(valid) == len(frame):
        return
    numbered: Any = type(schema.__name__, (schema,), {ROW: dy.Int64()})
    _, failure = numbered.filter(
        frame.select(pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW), *schema.column_names())
    )
    rule, count = max(failure.counts().items(), key=lambda item: item[1])
    broken = failure.details().filter(pl.col(rule).cast(pl.String) == "invalid").head(4)
    columns = _columns_of(rule, schema)
    shown = (_shorten(row, columns) for row in broken.iter_rows(named=True))
    raise AspError(
        f"{name}: not a valid {table_name(schema)} table: {_rule_in_words(rule, schema)}, "
        f"broken in {count} of {len(frame)} rows, first in row {first_few(broken[ROW])} (from 0): "
        f"{first_few(shown)}"
    )


def narrowed(schema: type[dy.Schema], columns: Iterable[str]) -> type[dy.Schema]:
    """A schema of some of the columns, with the rules that concern a single column."""
    kept = {column: schema.columns()[column] for column in columns if column in schema.columns()}
    return type(schema.__name__, (dy.Schema,), kept)


def _columns_of(rule: str, schema: type[dy.Schema]) -> list[str]:
    """`mu|nan` concerns mu; `primary_key` the key; a rule of ours names its columns."""
    column, _, condition = rule.partition("|")
    if condition:
        return [column]
    if rule == "primary_key":
        return schema.primary_key()
    named = [column for column in schema.column_names() if f"_{column}_" in f"_{rule}_"]
    return named or schema.column_names()[:1]


def _rule_in_words(rule: str, schema: type[dy.Schema]) -> str:
    column, _, condition = rule.partition("|")
    if rule == "primary_key":
        return f"{' and '.join(schema.primary_key())} must occur once"
    if not condition:
        return rule.replace("_", " ")
    spec = schema.columns()[column]
    inner = getattr(spec, "inner", None)
    words = {
        "nullability": "must not be null",
        "inner_nullability": "must hold no null",
        "inner_min": f"must hold nothing below {getattr(inner, 'min', None)}",
        "nan": "must not be NaN",
        "inf": "must be finite",
        "min": f"must be at least {getattr(spec, 'min', None)}",
        "max": f"must be at most {getattr(spec, 'max', None)}",
        "min_length": "must not be empty",
    }
    return f"column {column} {words.get(condition, f'breaks its rule {condition!r}')}"


def _shorten(row: Mapping[str, object], columns: list[str]) -> str:
    pairs = []
    for column in columns:
        pairs.append(f"{column}={shorten(row[column], 40)}")
    return " ".join(pairs)
