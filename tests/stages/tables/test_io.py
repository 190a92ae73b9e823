"""One reader, one writer: whole files or none, provenance, pipes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from stages.lengths.table import complete
from stages.tables import io
from stages.tables.errors import AspError
from stages.tables.io import new_directory, new_file, read_table, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Lengths

PROVENANCE = Provenance("predict", "lengths/1", {"n": 2}, 7, {"score": 0.5}, (Input("x", "ab"),))


@pytest.fixture
def frame(make_lengths) -> pl.DataFrame:  # type: ignore[no-untyped-def]
    return complete(make_lengths(5).with_columns(
        prompt_hash=pl.lit(None, dtype=pl.String), prompt_tokens=pl.lit(None, dtype=pl.Int64),
        domain=pl.lit(None, dtype=pl.String), sample_sigma=pl.lit(None, dtype=pl.Float64),
        nu_below=pl.lit(None, dtype=pl.Float64), nu_above=pl.lit(3.0),
    ))  # fmt: skip


def test_a_table_comes_back_with_its_provenance(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = str(tmp_path / "lengths.parquet")
    write_table(frame, Lengths, path, PROVENANCE, force=False)
    table = read_table(path, Lengths)
    assert table.provenance == PROVENANCE
    assert table.frame.equals(frame.select(table.frame.columns).cast(dict(table.frame.schema)))


def test_equal_inputs_give_equal_bytes(frame: pl.DataFrame, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_table(frame, Lengths, str(tmp_path / name), PROVENANCE, force=False)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_footer_is_read_by_other_tools(frame: pl.DataFrame, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "lengths.parquet"
    write_table(frame, Lengths, str(path), PROVENANCE, force=False)
    assert b'"stage": "predict"' in pq.read_metadata(path).metadata[b"asp"]


def test_a_file_rewritten_without_its_footer_is_accepted(
    frame: pl.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "lengths.parquet"
    frame.with_columns(mu=pl.col("mu") + 1).write_parquet(path)
    assert read_table(str(path), Lengths).provenance is None


@pytest.mark.parametrize("footer", ["not json", "[]", "{}", '{"stage": 1}', "null"])
def test_a_broken_footer_is_no_obstacle(frame: pl.DataFrame, tmp_path: Path, footer: str) -> None:
    path = tmp_path / "lengths.parquet"
    frame.write_parquet(path, metadata={"asp": footer})
    assert read_table(str(path), Lengths).provenance is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"a,b\n1,2\n", "does not start as one"),
        (b"PAR1 and then nothing of use", "damaged or cut short"),
    ],
)
def test_what_is_no_parquet_is_said(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    with pytest.raises(AspError, match=words):
        read_table(str(path), Lengths)


def test_every_truncation_is_refused(frame: pl.DataFrame, tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    write_table(frame, Lengths, str(whole), PROVENANCE, force=False)
    data, cut = whole.read_bytes(), tmp_path / "cut.parquet"
    for size in range(0, len(data) - 1, 97):
        cut.write_bytes(data[:size])
        with pytest.raises(AspError):
            read_table(str(cut), Lengths, complete)


def test_missing_file_directory_and_folder(frame: pl.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(AspError, match="No such file"):
        read_table(str(tmp_path / "none.parquet"), Lengths)
    with pytest.raises(AspError, match="is a directory"):
        read_table(str(tmp_path), Lengths)
    with pytest.raises(AspError, match="does not exist; create it first"):
        write_table(frame, Lengths, str(tmp_path / "no" / "x"), PROVENANCE, force=False)
    with pytest.raises(AspError, match="is a directory; the output here is a file"):
        write_table(frame, Lengths, str(tmp_path), PROVENANCE, force=True)


def test_an_existing_output_needs_force(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_text("precious")
    with pytest.raises(AspError, match="--force"):
        write_table(frame, Lengths, str(path), PROVENANCE, force=False)
    assert path.read_text() == "precious"
    write_table(frame, Lengths, str(path), PROVENANCE, force=True)
    assert read_table(str(path), Lengths).provenance == PROVENANCE


def test_a_failed_write_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("precious")
    with pytest.raises(ZeroDivisionError), new_file(str(path), force=True) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    with (
        pytest.raises(ZeroDivisionError),
        new_directory(str(tmp_path / "d"), False, "file") as temporary,
    ):
        (temporary / "file").write_text("half")
        raise ZeroDivisionError
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("x", "precious")]


def test_a_directory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "d"
    for content in ("old", "new"):
        with new_directory(str(path), force=True, marker="marker") as temporary:
            (temporary / "marker").write_text("ours")
            (temporary / content).write_text(content)
    assert sorted(p.name for p in path.iterdir()) == ["marker", "new"]
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_a_directory_of_others_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with (
        pytest.raises(AspError, match="holds files but no marker"),
        new_directory(str(tmp_path), force=True, marker="marker"),
    ):
        pass
    assert (tmp_path / "thesis.tex").read_text() == "precious"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(
    frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.parquet"
    full = tmp_path / "temporary"
    full.symlink_to("/dev/full")
    monkeypatch.setattr(io, "_temporary_path", lambda path, kind="new": full)
    with pytest.raises(AspError, match="No space left on device; nothing was left there"):
        write_table(frame, Lengths, str(target), PROVENANCE, force=False)
    assert not target.exists()


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_stage_leaves_nothing_under_the_outputs_name(
    tmp_path: Path, sent: signal.Signals, make_lengths
) -> None:  # type: ignore[no-untyped-def]
    source, output = tmp_path / "lengths.parquet", tmp_path / "minibatches.parquet"
    make_lengths(20_000).write_parquet(source)
    command = [sys.executable, "-m", "asp_cli.main", "partition", str(source), "-o", str(output)]
    for delay in (0.2, 0.6, 1.0, 1.4):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        if process.poll() is None:
            os.kill(process.pid, sent)
        process.wait()
        if output.exists():
            assert len(pl.read_parquet(output)) > 0  # finished before the signal: whole
            output.unlink()
        left = {path.name for path in tmp_path.iterdir()} - {source.name}
        assert all(name.endswith(".tmp") for name in left)
        assert sent == signal.SIGKILL or not left


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path, is_forced: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AspError, match="is a device or a pipe"):
        io.check_output(str(tmp_path / "pipe"), is_forced)
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with new_file(str(tmp_path / "link"), force=False) as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "new"


def test_a_linked_directory_is_replaced_and_nothing_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with new_directory(str(tmp_path / "link"), force=True, marker="m") as folder:
        (folder / "m").write_text("new")
    assert (tmp_path / "real" / "m").read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"real", "link"}


def test_ctrl_c_between_the_two_renames_keeps_the_old_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "m").write_text("old")
    replace, calls = os.replace, iter([False, True, False])

    def interrupted(source: Path, to: Path) -> None:
        if next(calls):
            raise KeyboardInterrupt
        replace(source, to)

    monkeypatch.setattr(os, "replace", interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        new_directory(str(target), force=True, marker="m") as folder,
    ):
        (folder / "m").write_text("new")
    assert (target / "m").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_names_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    with new_file(str(tmp_path / ("a" * 255)), force=False) as temporary:
        temporary.write_text("x")
    assert (tmp_path / ("a" * 255)).exists()
    with pytest.raises(AspError, match="File name too long"):
        io.check_output(str(tmp_path / ("a" * 256)), force=False)


FOOTER = '{"stage": "", "schema": "", "config": {"x": VALUE}, "seed": 0, "inputs": [], "tool": ""}'


@pytest.mark.parametrize(
    "footer",
    [
        "[" * 100_000,
        '{"stage": NaN}',
        "null",
        "[]",
        "text",
        FOOTER.replace("VALUE", "Infinity"),
        FOOTER.replace("VALUE", "1e999"),
        FOOTER.replace("VALUE", '"\\ud800"'),
    ],
)
def test_a_footer_that_could_not_be_carried_along_counts_as_none(
    frame: pl.DataFrame, tmp_path: Path, footer: str
) -> None:
    frame.write_parquet(tmp_path / "x", metadata={"asp": footer})
    assert read_table(str(tmp_path / "x"), Lengths).provenance is None
