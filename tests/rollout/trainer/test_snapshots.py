import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollout.trainer.snapshots import Snapshots
from stages.tables.errors import AspError


def write(snapshots: Snapshots, version: int, text: str = "weights") -> None:
    with snapshots.new(version) as folder:
        (folder / "model.safetensors").write_text(text * (version + 1))
        (folder / "config.json").write_text("{}")


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    """Versions 0 to 4."""
    made = Snapshots(tmp_path)
    for version in range(5):
        write(made, version)
    return made


def test_versions_are_listed(snapshots: Snapshots) -> None:
    assert snapshots.versions() == [0, 1, 2, 3, 4]
    assert Snapshots(snapshots.folder / "nowhere").versions() == []


@pytest.mark.parametrize(
    "harm", ["flip", "cut", "missing", "extra", "no seal", "bad seal", "moved"]
)
def test_a_damaged_snapshot_is_noticed(snapshots: Snapshots, harm: str) -> None:
    path = snapshots.path(4)
    weights = path / "model.safetensors"
    content = weights.read_bytes()
    if harm == "flip":
        weights.write_bytes(content[:-1] + b"?")
    elif harm == "cut":
        weights.write_bytes(content[:-1])
    elif harm == "missing":
        weights.unlink()
    elif harm == "extra":
        (path / "model-2.safetensors").write_bytes(content)
    elif harm == "no seal":
        (path / "seal.json").unlink()
    elif harm == "bad seal":
        (path / "seal.json").write_text('{"facts": {')
    else:
        snapshots.path(4).rename(snapshots.path(7))
    version = 7 if harm == "moved" else 4
    with pytest.raises(AspError, match=str(snapshots.path(version))):
        snapshots.check(version)


def test_pruning_keeps_the_last(snapshots: Snapshots) -> None:
    for _ in range(2):
        snapshots.prune(keep=2)
        assert snapshots.versions() == [3, 4]
    assert len(list(snapshots.folder.iterdir())) == 2


def test_a_version_is_replaced_as_a_whole_and_not_by_a_failure(snapshots: Snapshots) -> None:
    with pytest.raises(RuntimeError), snapshots.new(4) as folder:
        (folder / "model.safetensors").write_text("half")
        raise RuntimeError
    snapshots.check(4)
    write(snapshots, 4, "new")
    snapshots.check(4)
    assert (snapshots.path(4) / "model.safetensors").read_text() == "new" * 5
    assert len(list(snapshots.folder.iterdir())) == 5


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from safetensors.numpy import save_file
from rollout.trainer.snapshots import Snapshots
from stages.tables.errors import AspError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writers = (
    lambda path: save_file({"weight": np.zeros(100_000)}, path),
    lambda path: path.write_bytes(bytes(200_000)),
)
for write in writers:
    try:
        with Snapshots(Path(sys.argv[1])).new(5) as folder:
            write(folder / "model.safetensors")
    except AspError as error:
        print(error)
"""


def test_a_file_that_cannot_grow_leaves_no_snapshot(snapshots: Snapshots) -> None:
    """The system refuses to let any file grow beyond a limit, as it does when a disk is full."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, snapshots.folder],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(f"{snapshots.path(5)}: cannot be written: ")
        assert "File too large" in line and line.endswith("nothing was left there")
    assert len(list(snapshots.folder.iterdir())) == 5
