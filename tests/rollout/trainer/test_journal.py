"""The journal: what it keeps, what it rolls back, what it refuses."""

from pathlib import Path

import pytest

from rollout.control.messages import HeldOver, Response, Train, Unfinished
from rollout.control.uniform import uniform_plan
from rollout.trainer.journal import Journal
from rollout.trainer.resume import Checkpoint
from stages.tables.errors import AspError

PLAN = uniform_plan(range(6), 2, 1, 1)


def open_at(folder: Path, **settings: object) -> Journal:
    return Journal(folder / "journal.sqlite", settings, PLAN)


def train(journal: Journal, step: int, *groups: int) -> None:
    one = ([3], [3])
    journal.trained(
        Train(step, groups, (0,) * len(groups), frozenset()),
        [one] * len(groups),
        [step],
        {"x": 1.0},
    )


def test_what_came_after_the_checkpoint_is_rolled_back(tmp_path: Path) -> None:
    journal = open_at(tmp_path)
    assert journal.begin(Checkpoint()) == 1
    held = HeldOver(1, 2, 0, (Unfinished(2, 1, Response(1, 0, 7)),))
    train(journal, 0, 0)
    journal.saved(Checkpoint(1, 1, (held,), {"1": {}}))
    train(journal, 1, 2, 3)
    journal.note([1], "queued", 2)
    train(journal, 2, 1, 4)
    journal.close()

    journal = open_at(tmp_path)
    assert set(journal.lags()) == {0, 1, 2, 3, 4}
    newest, beginning = journal.checkpoints()
    assert (newest.version, newest.session, newest.held_over, newest.drafts) == (
        1, 1, (held,), {"1": {}},
    )  # fmt: skip
    assert beginning == Checkpoint()
    assert journal.begin(newest) == 2
    assert set(journal.lags()) == {0} and [row for row, _ in journal.steps()] == [[0]]
    train(journal, 1, 2, 3)
    assert set(journal.lags()) == {0, 2, 3}
    journal.close()


def test_a_group_is_not_trained_on_again(tmp_path: Path) -> None:
    journal = open_at(tmp_path)
    train(journal, 0, 0, 1)
    with pytest.raises(AssertionError, match="step 1 trains on a group again"):
        train(journal, 1, 1, 2)
    assert set(journal.lags()) == {0, 1}, "the step that failed left nothing"
    journal.close()


def test_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    journal = open_at(tmp_path)
    for version in (2, 4, 6):
        journal.saved(Checkpoint(version, 1))
    assert [each.version for each in journal.checkpoints()] == [6, 4, 0]
    journal.begin(Checkpoint(4, 1))
    assert [each.version for each in journal.checkpoints()] == [4, 0]
    journal.close()


def test_time_events_and_spending_go_on(tmp_path: Path) -> None:
    journal = open_at(tmp_path)
    assert journal.seconds() == 0
    journal.keep(1.5, [(0.5, "join")], [(0.0, 0, 0)], {"GU0": {"useful": 1.0}}, {"GU0": 41})
    journal.close()
    journal = open_at(tmp_path)
    journal.keep(2.5, [(2.0, "end")], [], {"GU0": {"useful": 3.0}}, {"GU0": 42})
    assert journal.seconds() == 2.5
    assert journal.rows("trace") == [(0.5, "join"), (2.0, "end")]
    assert journal.spent_u() == {"GU0": {"useful": 3.0}}
    journal.close()


def test_other_settings_and_other_files_are_refused(tmp_path: Path) -> None:
    open_at(tmp_path, max_lag=4).close()
    open_at(tmp_path, max_lag=4).close()
    with pytest.raises(AspError, match="other settings: max_lag 4 there, 1 now; repeat"):
        open_at(tmp_path, max_lag=1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "journal.sqlite").write_text("not a database, but text of some length " * 9)
    with pytest.raises(AspError, match="is no journal of this tool"):
        open_at(tmp_path / "b")
