"""What the footers of a schedule's chain tell."""

import polars as pl
import pytest

from rollout.origin import recorded_cap
from stages.tables.io import Table
from stages.tables.provenance import Input, Provenance


def schedule(cap: object) -> Table:
    predicted = Provenance("predict", "lengths/1", config={"max_response_tokens": cap})
    cut = Provenance("partition", "minibatches/1", inputs=(Input("lengths", "0", predicted),))
    return Table(pl.DataFrame(), "schedule.parquet", "0", cut)


def test_the_cap_is_that_of_the_lengths() -> None:
    assert recorded_cap(schedule(80)) == 80


@pytest.mark.parametrize("cap", [None, 0, -1, True, 1.5, "80", 2**70])
def test_a_cap_that_cannot_be_meant_is_none(cap: object) -> None:
    assert recorded_cap(schedule(cap)) is None


def test_no_chain_tells_none() -> None:
    assert recorded_cap(None) is None
    assert recorded_cap(Table(pl.DataFrame(), "schedule.parquet", "0", None)) is None
