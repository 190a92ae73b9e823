"""A generating actor on its thread, with an engine that takes no time."""

import queue
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.simulator.price import Price
from rollout.trainer.actor import GeneratingActor
from rollout.trainer.engines.timed import Pace, TimedEngine
from rollout.trainer.exchange import (
    Broken,
    Ended,
    EngineBroke,
    Free,
    Generate,
    Load,
    News,
    PutDown,
    Refused,
    Unloaded,
)
from rollout.trainer.samples import Draft

SLOTS = 4


class Bench:
    """An actor with number 5, and what it tells."""

    def __init__(self, lengths: list[list[int]], static: bool, step_s: float = 0.0) -> None:
        self.told: queue.Queue[News] = queue.Queue()
        price = Price(step_s, 0.0, 0.0, 0.0, SLOTS, 1)
        engine = TimedEngine(lengths, Pace(price, 0.0, 1.0, static))
        self.actor = GeneratingActor(engine, static, self.told.put)
        self.actor._number = 5

    def give(self, work: int, group: int, size: int, limit: int = 999, seconds: float = 60) -> None:
        drafts = [Draft(group, sample, (), limit) for sample in range(size)]
        self.actor.order(Generate(5, work, drafts, seconds))

    def next(self) -> News:
        return self.told.get(timeout=30)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    return Bench


def test_static_asks_when_its_minibatch_has_ended(bench: Callable[..., Bench]) -> None:
    on = bench([[2, 9], [4]], static=True)
    on.give(0, group=0, size=2)
    ended, free = on.next(), on.next()
    assert isinstance(ended, Ended) and ended.work == 0
    assert [len(draft.token_ids) for draft in ended.drafts] == [2, 9]
    assert free == Free(5) and on.told.empty()


def test_continuous_asks_while_a_slot_is_empty_and_refills_it(bench: Callable[..., Bench]) -> None:
    on = bench([[5] * 6, [1]], static=False, step_s=0.01)
    on.give(0, group=0, size=3)
    assert on.next() == Free(5)
    on.give(1, group=1, size=1)
    first = on.next()
    assert isinstance(first, Ended) and first.work == 1, "the shorter overtakes"
    assert on.next() == Free(5)
    second = on.next()
    assert isinstance(second, Ended) and second.work == 0


class Late(TimedEngine):
    """Its third call takes long, and those after it take less: time is slept to when it was due."""

    def __init__(self, lengths: list[list[int]]) -> None:
        super().__init__(lengths, Pace(Price(0.002, 0.0, 0.0, 0.0, SLOTS, 1), 0.0, 1.0, True))
        self.asked: list[int] = []

    def decode(self, num_steps: int) -> list[Draft]:
        self.asked.append(num_steps)
        if len(self.asked) == 3:
            time.sleep(0.2)
        return super().decode(num_steps)


def test_an_engine_that_catches_up_is_not_taken_for_a_fast_one() -> None:
    told: queue.Queue[News] = queue.Queue()
    engine = Late([[400]])
    actor = GeneratingActor(engine, True, told.put)
    actor.order(Generate(-1, 0, [Draft(0, 0, (), 999)], 60))
    assert isinstance(told.get(timeout=30), Ended)
    assert max(engine.asked) < 200


def test_put_down_gives_back_the_tokens(bench: Callable[..., Bench]) -> None:
    on = bench([[1, 10_000]], static=True, step_s=0.002)
    on.give(3, group=0, size=2)
    while on.actor.state().num_tokens < 20:
        pass
    on.actor.order(PutDown(5))
    unloaded = on.next()
    assert isinstance(unloaded, Unloaded)
    short, long = unloaded.drafts[3]
    assert short.end == "stop" and long.end is None
    assert 10 < len(long.token_ids) < 10_000
    assert on.actor.state().num_active == 0
    assert on.told.empty(), "who was told to put down its work does not ask for more"


def test_what_has_no_end_in_its_time_is_given_up(bench: Callable[..., Bench]) -> None:
    """The work of the same engine that has time left goes on."""
    on = bench([[10**6], [300]], static=False, step_s=0.0005)
    on.give(0, group=0, size=1, seconds=0.05)
    on.give(1, group=1, size=1)
    told: list[Ended] = []
    while len(told) < 2:
        news = on.next()
        told += [news] if isinstance(news, Ended) else []
    assert [(each.work, each.drafts[0].end) for each in told] == [(0, "abort"), (1, "stop")]
    assert len(told[1].drafts[0].token_ids) == 300


def test_a_bad_snapshot_is_refused_and_a_broken_engine_said(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    on = bench([[4]], static=True)
    on.actor.order(Load(5, 1, tmp_path / "none"))
    refused = on.next()
    assert isinstance(refused, Refused) and "holds no readable seal" in refused.reason
    on.give(0, group=7, size=1)  # there is no such group
    broken = on.next()
    assert isinstance(broken, Broken) and broken.reason.startswith("IndexError")


class Heavy(TimedEngine):
    """Loads no weights: it is not the snapshot's fault."""

    def load(self, version: int, snapshot: Path) -> None:
        raise MemoryError("no room on the GPU")


def test_whoever_begins_a_broken_engine_hears_so(tmp_path: Path) -> None:
    """As it breaks, and ever after: a thread that is gone answers nobody."""
    told: queue.Queue[News] = queue.Queue()
    pace = Pace(Price(0.0, 0.0, 0.0, 0.0, SLOTS, 1), 0.0, 1.0, True)
    actor = GeneratingActor(Heavy([[4]], pace), True, told.put)
    for number in (5, 6):
        with pytest.raises(EngineBroke, match=r"^MemoryError: no room on the GPU$"):
            actor.begin(number, 0, tmp_path)
    assert told.get(timeout=30) == Broken(5, "MemoryError: no room on the GPU")


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=SLOTS), min_size=1, max_size=6),
    st.booleans(), st.integers(1, 50),
)  # fmt: skip
def test_every_response_comes_back_once_as_long_as_it_may_be(
    lengths: list[list[int]], static: bool, limit: int
) -> None:
    on = Bench(lengths, static)
    for group, samples in enumerate(lengths):
        on.give(group, group, len(samples), limit)
    made = {}
    while len(made) < len(lengths):
        news = on.next()
        if isinstance(news, Ended):
            assert news.work not in made
            made[news.work] = [len(draft.token_ids) for draft in news.drafts]
    assert made == {g: [min(n, limit) for n in samples] for g, samples in enumerate(lengths)}
    spent = on.actor.state().spent
    assert min(spent.as_dict().values()) > -1e-9
