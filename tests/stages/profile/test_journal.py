"""The journal: durable batches, one set of settings, and what it says of anything else."""

from pathlib import Path

import pytest

from stages.profile.engine import Answer
from stages.profile.journal import open_journal
from stages.tables.errors import AspError

ANSWERS = [
    Answer(3, "stop", prompt_tokens=1, latency_s=0.25, ttft_s=0.1, concurrency=2),
    Answer(9, "length"),
]
SETTINGS = {"temperature": 1.0, "prompts": "abc", "num_prompts": None}


def test_what_is_recorded_is_there_after_a_kill(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    with open_journal(output, SETTINGS, False) as journal:
        journal.record(4, ANSWERS)
    with open_journal(output, SETTINGS, False) as journal:
        assert journal.finished() == {4: ANSWERS}
        journal.discard()
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_refused_with_what_differs(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    with open_journal(output, SETTINGS, False) as journal:
        journal.record(0, ANSWERS)
    with (
        pytest.raises(AspError) as caught,
        open_journal(output, SETTINGS | {"temperature": 0.7, "seed": 1}, False),
    ):
        pass
    line = str(caught.value)
    assert line.startswith(f"{output}.journal: is of a run with other settings: ")
    assert "seed none there, 1 now; temperature 1.0 there, 0.7 now" in line
    assert "--force" in line
    with open_journal(output, SETTINGS, False) as journal:
        assert journal.finished() == {0: ANSWERS}


def test_force_starts_over_where_settings_differ_and_resumes_where_not(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    with open_journal(output, SETTINGS, False) as journal:
        journal.record(0, ANSWERS)
    with open_journal(output, SETTINGS, True) as journal:
        assert journal.finished() == {0: ANSWERS}
    with open_journal(output, SETTINGS | {"seed": 1}, True) as journal:
        assert journal.finished() == {}


def test_standard_output_leaves_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_journal("-", SETTINGS, False) as journal:
        journal.record(0, ANSWERS)
        assert journal.finished() == {0: ANSWERS}
        journal.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet.journal"
    path.write_text("my own notes, longer than the header of a database " * 10)
    before = path.read_bytes()
    with (
        pytest.raises(AspError, match="is not a journal of this tool"),
        open_journal(str(tmp_path / "p.parquet"), SETTINGS, True),
    ):
        pass
    assert path.read_bytes() == before


def test_two_runs_at_once_are_noticed(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    with open_journal(output, SETTINGS, False) as one, open_journal(output, SETTINGS, False) as two:
        one.record(0, ANSWERS)
        with pytest.raises(AspError, match="another run is writing it"):
            two.record(0, ANSWERS)
