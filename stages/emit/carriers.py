"""Carrier types: Arrow types that rows can be taken from and concatenated in, at any size.

Strings get 64-bit offsets, since 32-bit ones overflow at 2 GiB; dictionaries are spelled out, since
every part would hold the whole dictionary; views are made strings, since Arrow cannot take from
them. A cast to the carrier and back gives the same values in the same types.
"""

from typing import Any

import pyarrow as pa


def carrier_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in which rows of `schema` travel; names and nullability stay."""
    return pa.schema([field.with_type(carrier(field.type)) for field in schema])


def carrier(kind: Any) -> Any:
    """The Arrow type in which values of `kind` travel; nested types part by part."""
    types = pa.types
    if types.is_dictionary(kind):
        return carrier(kind.value_type)
    if types.is_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary(kind) or types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(carrier(field.type)) for field in kind])
    if types.is_map(kind):
        key, item = (f.with_type(carrier(f.type)) for f in (kind.key_field, kind.item_field))
        return pa.map_(key, item, keys_sorted=kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(_carrier_field(kind), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(_carrier_field(kind))
    return kind


def _carrier_field(kind: Any) -> Any:
    return kind.value_field.with_type(carrier(kind.value_type))
