"""Which plain type holds a column of the prompts that is handed on?

A Parquet file says it; of JSON lines all rows do.
"""

from typing import Any

import polars as pl

from stages.tables.errors import AspError
from stages.tables.prompts import is_unicode
from stages.tables.records import Records, values

Dtype = Any  # a polars data type, as class or instance


def types_of(records: Records, column: str) -> set[Dtype]:
    """The types that a column's values need; of a Parquet file its own, text as text."""
    if isinstance(records, pl.DataFrame):
        dtype = records[column].dtype
        return {pl.String if dtype in (pl.Categorical, pl.Enum) else dtype}
    types: set[Dtype] = set()
    for record in records:
        value = record.get(column)
        if isinstance(value, bool):
            types.add(pl.Boolean)
        elif isinstance(value, int) and -(2**63) <= value < 2**63:
            types.add(pl.Int64)
        elif isinstance(value, float):
            types.add(pl.Float64)
        elif isinstance(value, str) and is_unicode(value):
            types.add(pl.String)
        elif value is not None:
            types.add(pl.Object)
    return types


def plain_type(name: str, column: str, types: set[Dtype]) -> Dtype:
    """The one type that holds values of these types.

    Raises:
        AspError: There is none.
    """
    if types == {pl.Int64, pl.Float64}:
        return pl.Float64
    if not types or types == {pl.Null}:
        return pl.String
    dtype = next(iter(types))
    if len(types) > 1 or dtype.is_nested() or dtype in (pl.Object, pl.Binary):
        raise AspError(
            f"{name}: column {column!r} (--keep-column) is not of one plain type: it holds "
            f"{', '.join(sorted(map(str, types)))}; name a column of text, of numbers or of "
            "truth values"
        )
    return dtype


def kept_series(records: Records, column: str, dtype: Dtype) -> pl.Series:
    """A column's values in that type."""
    if isinstance(records, pl.DataFrame):
        return records[column].cast(dtype)
    return pl.Series(column, values(records, column), dtype, strict=False)
