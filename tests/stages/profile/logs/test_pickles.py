"""Pickles of strangers: nothing that they name is imported or called."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from stages.profile.logs.pickles import Ignored, read_pickle
from stages.profile.recorded import Selection, read_recording
from stages.tables.errors import AspError


class Touches:
    """A pickle of it makes a file when it is loaded as Python does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    made = tmp_path / "made"
    data = pickle.dumps({"samples": [Touches(made)]})
    with pytest.raises(AspError, match=r"f: the pickle names (posix|nt)\.mkdir, which"):
        read_pickle("f", data, {})
    assert not made.exists()
    pickle.loads(data)
    assert made.exists()  # so the test could have failed


@pytest.mark.parametrize("name", ["slime", "skyrl"])
def test_so_is_a_log_that_holds_one(tmp_path: Path, name: Any) -> None:
    made, path = tmp_path / "made", tmp_path / "0.pt"
    if name == "slime":
        torch.save({"rollout_id": 0, "samples": [{"metadata": Touches(made)}]}, path)
    else:
        path.write_bytes(pickle.dumps(Touches(made)))
    with pytest.raises(AspError, match=r"mkdir, which .*(refused|no use)"):
        read_recording(str(path), Selection(format=name))
    assert not made.exists()


def test_what_is_known_stands_for_itself_and_the_rest_is_data() -> None:
    data = pickle.dumps([1, "a", {"device": torch.device("cpu")}])
    held = read_pickle("f", data, {("torch", "device"): Ignored})
    assert held[:2] == [1, "a"]
    assert isinstance(held[2]["device"], Ignored)


@pytest.mark.parametrize("data", [b"", b"not a pickle", pickle.dumps([1, 2])[:-3]])
def test_a_damaged_one_is_told(data: bytes) -> None:
    with pytest.raises(AspError, match="f: is not a pickle that can be read"):
        read_pickle("f", data, {})
