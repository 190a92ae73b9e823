"""The engine without a model: it replays lengths, and takes the time that the cost model says."""

import json
import time
from pathlib import Path

import pytest

from rollout.simulator.price import Price
from rollout.trainer.engines.timed import WEIGHTS_FILE, Pace, TimedEngine
from rollout.trainer.samples import Draft
from rollout.trainer.sealed import sealed_directory
from stages.tables.errors import AspError


def engine_of(lengths: list[int], is_static: bool = False, scale: float = 0.0) -> TimedEngine:
    """Four slots; a step costs 10 ms and 1 ms a sequence."""
    price = Price(0.01, 0.001, 0.0, 0.0, slots=4, num_devices=1)
    return TimedEngine([lengths], Pace(price, 0.0, scale, is_static))


def drafts_of(num_drafts: int, limit: int = 100) -> list[Draft]:
    return [Draft(0, sample, (0, 0), limit) for sample in range(num_drafts)]


def snapshot_of(folder: Path) -> Path:
    with sealed_directory(folder / "00000000", {"version": 0}) as place:
        (place / WEIGHTS_FILE).write_text(json.dumps({"trained": []}))
    return folder / "00000000"


def test_a_response_ends_at_its_length_or_stands_at_its_limit() -> None:
    engine = engine_of([3, 5])
    short, long = drafts_of(2, limit=4)
    engine.add([short, long])
    assert engine.decode(100) == [short]
    assert (short.end, len(short.token_ids), len(long.token_ids)) == ("stop", 3, 3)
    assert engine.decode(100) == [long]
    assert (long.end, len(long.token_ids)) == (None, 4)
    long.limit = 5
    engine.add([long])
    assert engine.decode(100) == [long] and long.end == "stop"


def test_what_is_put_down_goes_on_with_each_token_of_its_version(tmp_path: Path) -> None:
    engine = engine_of([6])
    (draft,) = drafts_of(1)
    engine.add([draft])
    assert engine.decode(2) == []
    assert engine.put_down() == [draft]
    engine.load(7, snapshot_of(tmp_path))
    engine.add([draft])
    assert engine.decode(100) == [draft]
    assert draft.versions == [-1, -1, 7, 7, 7, 7] and len(draft.logprobs) == 6


@pytest.mark.parametrize(("is_static", "milliseconds"), [(True, 2 * 12 + 2 * 12), (False, 46)])
def test_it_takes_the_time_of_the_cost_model(is_static: bool, milliseconds: int) -> None:
    """Lengths 2 and 4: static pays for both sequences throughout, else for one in the last two."""
    engine = engine_of([2, 4], is_static, scale=1.0)
    begin_s = time.monotonic()
    engine.add(drafts_of(2))
    assert engine.decode(100)
    if not is_static:
        assert engine.decode(100)
    assert time.monotonic() - begin_s >= milliseconds / 1000 - 1e-6


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    (snapshot / WEIGHTS_FILE).write_text("{}")
    engine = engine_of([1])
    with pytest.raises(AspError, match="is damaged or was changed"):
        engine.load(0, snapshot)
    assert engine.version == -1
