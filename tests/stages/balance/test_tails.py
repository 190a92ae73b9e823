"""Where tails run: by hand, and for any number of groups, rounds and windows."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stages.balance.tails import place_tails
from stages.tables.schemas import Groups

SCHEMA = {
    "minibatch_id": pl.Int64, "kind": Groups.kind.dtype, "round": pl.Int64,
    "instance": pl.Int64, "group_id": pl.Int64, "position": pl.Int64, "epoch": pl.Int64,
}  # fmt: skip


def heads(num: int, group_size: int) -> pl.DataFrame:
    ids = list(range(num))
    columns = {"minibatch_id": ids, "kind": ["head"] * num, "round": [0] * num,
               "instance": [None] * num, "group_id": [i // group_size for i in ids],
               "position": ids, "epoch": [3] * num}  # fmt: skip
    return pl.DataFrame(columns, schema=SCHEMA)


def tails(rounds: list[int], first_id: int = 100) -> pl.DataFrame:
    columns = {"minibatch_id": [first_id + i for i in range(len(rounds))],
               "kind": ["tail"] * len(rounds), "round": rounds}  # fmt: skip
    kept = ("minibatch_id", "kind", "round")
    return pl.DataFrame(columns, schema={name: SCHEMA[name] for name in kept})


def test_a_tail_follows_the_group_that_feeds_it_and_comes_first() -> None:
    placed = place_tails(heads(4, 2), tails([1, 1, 2, 2]), window=1)
    assert placed.select("group_id", "minibatch_id").rows() == [
        (0, 0), (0, 1),            # two groups of two heads
        (1, 100), (1, 2), (1, 3),  # round 1 of what group 0 left, before the heads
        (2, 102), (2, 101),        # no heads are left: round 2 of group 0, round 1 of group 1
        (3, 103),
    ]  # fmt: skip
    assert placed["position"].to_list() == list(range(8))
    assert placed["epoch"].unique().to_list() == [3]


def test_the_tails_of_a_window_are_spread_over_the_next() -> None:
    placed = place_tails(heads(8, 1), tails([1, 1, 1, 1]), window=4)
    of_tails = placed.filter(pl.col("kind") == "tail")
    assert of_tails.select("minibatch_id", "group_id").rows() == [
        (100, 4), (101, 6), (102, 8), (103, 9)
    ]  # fmt: skip


def test_tails_give_way_to_heads_that_were_cut() -> None:
    placed = place_tails(heads(4, 2), tails([1, 2], first_id=3), window=1)
    assert placed.select("minibatch_id", "round").rows() == [
        (0, 0), (1, 0), (4, 1), (2, 0), (3, 0), (5, 2)
    ]  # fmt: skip


@given(
    st.integers(1, 40), st.integers(1, 5), st.integers(1, 9),
    st.lists(st.integers(1, 9), max_size=4),
)  # fmt: skip
def test_every_tail_runs_once_after_all_that_feeds_it(
    num: int, group_size: int, window: int, counts: list[int]
) -> None:
    num_groups = -(-num // group_size)
    window = min(window, num_groups)
    num_windows = -(-num_groups // window)
    rounds = [r for r, count in enumerate(counts, 1) for _ in range(count * num_windows)]
    placed = place_tails(heads(num, group_size), tails(rounds), window)
    assert sorted(placed["minibatch_id"]) == sorted([*range(num), *range(100, 100 + len(rounds))])
    assert placed["group_id"].is_sorted()
    assert placed["group_id"].n_unique() == placed["group_id"].max() + 1
    for number, count in enumerate(counts, 1):
        rows = placed.filter(pl.col("round") == number).sort("minibatch_id")
        for k, group in enumerate(rows["group_id"]):
            fed_by = k // count  # the window
            last_feeder = min((fed_by + 1) * window, num_groups) - 1
            assert group > last_feeder
            first_feeder = fed_by * window
            assert group - first_feeder <= (number + 1) * window - 1
    order = placed.filter(pl.col("kind") == "head")["minibatch_id"]
    assert order.to_list() == list(range(num))
