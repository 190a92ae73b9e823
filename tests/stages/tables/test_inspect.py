"""A summary for every table."""

from stages.tables.inspect import SUMMARIES
from stages.tables.schemas import TABLES


def test_every_table_has_a_summary() -> None:
    assert SUMMARIES.keys() == TABLES.keys()
