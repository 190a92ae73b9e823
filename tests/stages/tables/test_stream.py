"""Files in batches: the same rows and the same bytes as at once."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.tables.errors import AspError
from stages.tables.io import read_table, write_table
from stages.tables.provenance import Provenance
from stages.tables.schemas import Profile
from stages.tables.stream import PART_ROWS, ParquetRows, readable_twice, write_batches

MADE = Provenance("test", "profile/1")


def profile_of(num_rows: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "prompt_id": range(num_rows),
            "prompt_hash": [f"{i:016x}" for i in range(num_rows)],
            "prompt": [f"prompt {i}" for i in range(num_rows)],
            "model": "m",
            "sample_index": 0,
            "response_tokens": [3 * i for i in range(num_rows)],
            "finish_reason": "stop",
            "policy_version": 0,
            "level": ["a", None] * (num_rows // 2) + ["b"] * (num_rows % 2),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stream")


@settings(max_examples=8)
@given(st.integers(1, 40), st.integers(1, 9))
def test_a_table_in_pieces_has_the_bytes_of_the_table_at_once(
    folder: Path, num_rows: int, piece: int
) -> None:
    frame = profile_of(num_rows)
    whole, pieces = str(folder / "whole.parquet"), str(folder / "pieces.parquet")
    write_table(frame, Profile, whole, MADE, force=True)
    write_batches(frame.iter_slices(piece), Profile, pieces, MADE, force=True)
    assert Path(pieces).read_bytes() == Path(whole).read_bytes()
    assert not list(folder.glob(".*"))


def test_nothing_is_left_where_a_piece_cannot_be_made(tmp_path: Path) -> None:
    def pieces() -> object:
        yield profile_of(3)
        raise AspError("the second piece fails")

    with pytest.raises(AspError, match="second piece"):
        write_batches(pieces(), Profile, str(tmp_path / "p.parquet"), MADE, force=False)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 50))
def test_batches_hold_every_row_once_whatever_the_row_groups(
    folder: Path, num_rows: int, row_group: int, batch: int
) -> None:
    path = folder / "groups.parquet"
    profile_of(num_rows).write_parquet(path, row_group_size=row_group)
    batches = list(ParquetRows("p", path).batches(["prompt_id", "level"], batch))
    assert [len(b) for b in batches[:-1]] == [batch] * (len(batches) - 1)
    assert pl.concat(batches).equals(profile_of(num_rows).select("prompt_id", "level"))


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    damaged = tmp_path / "p.parquet"
    profile_of(50).write_parquet(damaged)
    damaged.write_bytes(damaged.read_bytes()[:-40])
    with pytest.raises(AspError, match="damaged or cut short"):
        ParquetRows("p", damaged)
    for path, words in ((tmp_path / "none", "cannot be read"), (tmp_path, "is a directory")):
        with pytest.raises(AspError, match=words), readable_twice(str(path)):
            pass


def test_large_tables_are_cut_into_row_groups_alike(tmp_path: Path) -> None:
    frame = profile_of(PART_ROWS + 7)
    whole, pieces = str(tmp_path / "whole.parquet"), str(tmp_path / "pieces.parquet")
    write_table(frame, Profile, whole, MADE, force=False)
    write_batches(frame.iter_slices(5000), Profile, pieces, MADE, force=False)
    assert Path(pieces).read_bytes() == Path(whole).read_bytes()
    assert read_table(pieces, Profile).frame["level"].to_list() == frame["level"].to_list()
