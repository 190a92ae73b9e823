"""The directory of a run."""

from pathlib import Path

import pytest

from rollout.trainer.resume import Checkpoint
from rollout.trainer.rundir import RunDir
from stages.tables.errors import AspError


def test_a_session_keeps_checkpoints_and_no_earlier_snapshots(tmp_path: Path) -> None:
    place = RunDir(str(tmp_path / "run"), force=False)
    place.begin(1)
    for folder in (place.checkpoint(2, 1), place.checkpoint(4, 1), place.snapshots(1).path(5)):
        folder.mkdir()
    place.begin(2)
    place.keep([Checkpoint(4, 1), Checkpoint()])
    left = [p.relative_to(place.path).as_posix() for p in place.path.rglob("*") if p.is_dir()]
    assert sorted(left) == ["checkpoints", "checkpoints/00000004-1", "snapshots", "snapshots/2"]
    place.snapshots(2).path(6).mkdir()
    (place.snapshots(2).path(6) / "weights").write_text("w")
    place.finish(place.snapshots(2).path(6))
    assert [entry.name for entry in place.model.iterdir()] == ["weights"]
    assert not (place.path / "checkpoints").exists()
    place.close()


def test_one_run_at_a_time(tmp_path: Path) -> None:
    place = RunDir(str(tmp_path / "run"), force=False)
    with pytest.raises(AspError, match="another run is writing there"):
        RunDir(str(tmp_path / "run"), force=True)
    place.close()
    RunDir(str(tmp_path / "run"), force=False).close()


def test_what_no_run_wrote_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    with pytest.raises(AspError, match=r"holds files but no journal\.sqlite"):
        RunDir(str(tmp_path / "mine"), force=True)
    assert (tmp_path / "mine" / "letter").read_text() == "dear"
    with pytest.raises(AspError, match="is a file"):
        RunDir(str(tmp_path / "mine" / "letter"), force=False)
    with pytest.raises(AspError, match="does not exist; create it first"):
        RunDir(str(tmp_path / "no" / "run"), force=False)


def test_force_starts_over(tmp_path: Path) -> None:
    place = RunDir(str(tmp_path / "run"), force=False)
    place.journal.write_text("old")
    place.model.mkdir()
    place.close()
    with pytest.raises(AspError, match="holds a finished run; give --force"):
        RunDir(str(tmp_path / "run"), force=False)
    RunDir(str(tmp_path / "run"), force=True).close()
    assert [entry.name for entry in place.path.iterdir()] == [".lock"]
