"""Which server is asked, and what is noted of it, on a clock of its own."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stages.profile.endpoint.client import Failure
from stages.profile.endpoint.fleet import Fleet, Server, ServerFailure, Timing
from stages.profile.endpoint.settings import Patience
from stages.profile.engine import Unanswered


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


class Waiting:
    """A server that answers when it is told to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: list[asyncio.Future[str]] = []

    async def post(self, path: str, body: Any) -> str:
        self.waiting.append(asyncio.get_running_loop().create_future())
        return await self.waiting[-1]


def fleet_of(*clients: Any) -> tuple[Fleet, list[Server], Clock]:
    clock = Clock()
    servers = [Server(client) for client in clients]
    return Fleet(servers, Patience(outage_s=10.0), clock), servers, clock


def posted(fleet: Fleet, num_responses: int = 1) -> asyncio.Task[tuple[str, Timing]]:
    return asyncio.create_task(fleet.post("/", num_responses, lambda server: {}, str))


def test_the_one_with_the_fewest_responses_in_flight_is_asked() -> None:
    async def run() -> None:
        one, two = Waiting("one"), Waiting("two")
        fleet, servers, _ = fleet_of(one, two)
        tasks = []
        for num_responses in (3, 1, 1, 1, 2):
            tasks.append(posted(fleet, num_responses))
            await asyncio.sleep(0)
        assert (len(one.waiting), len(two.waiting)) == (2, 3)
        assert [server.in_flight for server in servers] == [5, 3]
        for waiting in one.waiting + two.waiting:
            waiting.set_result("said")
        await asyncio.gather(*tasks)
        assert [server.in_flight for server in servers] == [0, 0]

    asyncio.run(run())


def test_concurrency_is_the_mean_in_flight_meanwhile() -> None:
    """The first alone for 1 s, with a second for 3 s: 7 response-seconds in 4."""

    async def run() -> list[Timing]:
        server = Waiting("one")
        fleet, _, clock = fleet_of(server)
        first = posted(fleet)
        await asyncio.sleep(0)
        clock.now_s += 1
        second = posted(fleet)
        await asyncio.sleep(0)
        clock.now_s += 3
        server.waiting[0].set_result("said")
        await first
        clock.now_s += 5
        server.waiting[1].set_result("said")
        return [(await first)[1], (await second)[1]]

    assert asyncio.run(run()) == [Timing(4.0, 2), Timing(8.0, 1)]


def test_a_failing_server_rests_is_probed_once_at_a_time_and_dies() -> None:
    async def run() -> None:
        server = Waiting("one")
        fleet, (known,), clock = fleet_of(server)
        tried = posted(fleet)
        await asyncio.sleep(0)
        server.waiting[0].set_exception(Failure("it is broken"))
        with pytest.raises(ServerFailure) as failed:
            await tried
        assert not failed.value.is_own
        fleet.rest(failed.value, 2.0)
        assert not known.is_ready(101.9)
        assert known.is_ready(102.0)
        clock.now_s = 103.0
        probes = [posted(fleet), posted(fleet)]
        await asyncio.sleep(0.01)
        assert len(server.waiting) == 2  # one of the two
        clock.now_s = 110.0
        server.waiting[1].set_exception(Failure("it is broken"))
        with pytest.raises(ServerFailure) as failed:
            await probes[0]
        with pytest.raises(Unanswered, match=r"--endpoint one: is given up \(it is broken\)"):
            fleet.rest(failed.value, 2.0)
        probes[1].cancel()

    asyncio.run(run())


def test_a_failure_while_others_are_answered_is_the_request_s_own() -> None:
    async def run() -> None:
        server = Waiting("one")
        fleet, (known,), clock = fleet_of(server)
        failing, answered = posted(fleet), posted(fleet)
        await asyncio.sleep(0)
        clock.now_s += 1
        server.waiting[1].set_result("said")
        await answered
        server.waiting[0].set_exception(Failure("it is broken"))
        with pytest.raises(ServerFailure) as failed:
            await failing
        assert failed.value.is_own
        fleet.rest(failed.value, 2.0)
        assert known.is_ready(clock.now_s)

    asyncio.run(run())
