"""Which column of a file of recorded responses holds what?

Each layout of `logs/` has names of its own; a flag can rename any column of any of them.
"""

from collections.abc import Mapping, Sequence

from stages.profile.logs.layout import Layout
from stages.tables.errors import AspError


def flag_of(field: str) -> str:
    """The flag that names a field's column."""
    return f"--rollouts-{field.replace('_', '-')}-column"


def find_columns(
    columns: Sequence[str], layout: Layout, named: Mapping[str, str], name: str
) -> dict[str, str]:
    """The column of each field that the file holds.

    Args:
        columns: The columns of the file.
        layout: Whose names to look for.
        named: Fields whose column the user named; those must be there.
        name: The file, for messages.

    Raises:
        AspError: A named column is missing.
    """
    found = {}
    for field, defaults in layout.columns.items():
        if field in named and named[field] not in columns:
            raise AspError(
                f"{name}: no column {named[field]!r} ({flag_of(field)}); "
                f"it has {', '.join(columns) or 'no columns'}"
            )
        candidates = (named[field],) if field in named else defaults
        present = next((column for column in candidates if column in columns), None)
        if present is not None:
            found[field] = present
    return found
