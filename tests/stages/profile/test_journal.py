"""The journal: durable batches, one set of settings, and what it says of anything else."""

from pathlib import Path

import pytest

from stages.profile.engine import Answer, Request, Unanswered
from stages.profile.journal import open_journal
from stages.tables.errors import AspError, Stopped

FINISHED = [
    (Request(4, "what?", 0), Answer(3, "stop", 1, latency_s=0.25, ttft_s=0.1, concurrency=2)),
    (Request(4, "what?", 1), Answer(9, "length")),
]
KEPT = {(4, 0): FINISHED[0][1], (4, 1): FINISHED[1][1]}
SETTINGS = {"temperature": 1.0, "prompts": "abc", "num_prompts": None}


def test_what_is_recorded_is_there_after_a_kill(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    with open_journal(output, SETTINGS, False) as journal:
        journal.record(FINISHED)
    with open_journal(output, SETTINGS, False) as journal:
        assert journal.finished() == KEPT
        journal.discard()
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_refused_with_what_differs(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    with open_journal(output, SETTINGS, False) as journal:
        journal.record(FINISHED)
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
        assert journal.finished() == KEPT


def test_force_starts_over_where_settings_differ_and_resumes_where_not(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    with open_journal(output, SETTINGS, False) as journal:
        journal.record(FINISHED)
    with open_journal(output, SETTINGS, True) as journal:
        assert journal.finished() == KEPT
    with open_journal(output, SETTINGS | {"seed": 1}, True) as journal:
        assert journal.finished() == {}


def test_standard_output_leaves_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_journal("-", SETTINGS, False) as journal:
        journal.record(FINISHED)
        assert journal.finished() == KEPT
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
        one.record(FINISHED)
        with pytest.raises(AspError, match="another run is writing it"):
            two.record(FINISHED)


def test_a_run_that_stops_says_what_is_kept_and_how_to_go_on(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    with pytest.raises(Stopped) as stopped, open_journal(output, SETTINGS, False) as journal:
        journal.record(FINISHED)
        raise KeyboardInterrupt
    kept = f"2 responses are kept in {output}.journal; the same command goes on from there"
    assert str(stopped.value) == f"stopped; {kept}"
    with pytest.raises(AspError) as given_up, open_journal(output, SETTINGS, False):
        raise Unanswered("no server is left")
    assert str(given_up.value) == f"no server is left; {kept}"
    nothing = "nothing is kept, for the output is standard output"
    with pytest.raises(Stopped, match=nothing), open_journal("-", SETTINGS, False) as journal:
        journal.record(FINISHED)
        raise KeyboardInterrupt


def test_a_run_that_stops_before_anything_is_finished_leaves_no_journal(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    nothing = "no such server; nothing was finished"
    with pytest.raises(AspError, match=nothing), open_journal(output, SETTINGS, False):
        raise Unanswered("no such server")
    assert list(tmp_path.iterdir()) == []


def test_what_is_finished_together_is_kept_together_or_not_at_all(tmp_path: Path) -> None:
    output = str(tmp_path / "p.parquet")
    with open_journal(output, SETTINGS, False) as journal:
        journal.record(FINISHED[:1])
        with pytest.raises(AspError, match="another run is writing it"):
            journal.record([(Request(5, "", 0), Answer(1, "stop")), FINISHED[0]])
        assert journal.finished() == {(4, 0): FINISHED[0][1]}
