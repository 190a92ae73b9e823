"""Which server is asked next, and which is dead?

The one with the fewest responses in flight. Whose fault a failure is decides what follows. While a
server answers other requests, a failure is that request's own, which is made again, a few times. A
server that answers none is *failing*: it rests, is then given one request at a time, and is dead
when that brings nothing for `Patience.outage_s`. Its requests go to the others.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stages.profile.endpoint.client import Client, Failure, Refusal
from stages.profile.endpoint.settings import Patience
from stages.profile.engine import Unanswered
from stages.tables.errors import log
from stages.tables.progress import duration

Read = TypeVar("Read")


@dataclass(frozen=True)
class Timing:
    """When a request was under way."""

    latency_s: float
    concurrency: int  # mean number of responses in flight at its server, itself included


@dataclass
class Server:
    """What is known of a server."""

    client: Client
    extras: dict[str, float] = field(default_factory=dict)  # what it wants said for plain sampling
    in_flight: int = 0  # responses
    answered_s: float = float("-inf")  # the last time
    failing_since_s: float | None = None  # None: it answers
    rests_until_s: float = float("-inf")
    _in_flight_seconds: float = 0.0
    _counted_to_s: float = 0.0

    def is_ready(self, now_s: float) -> bool:
        """Whether it may be asked now; a failing one by one request at a time."""
        is_free = self.failing_since_s is None or self.in_flight == 0
        return is_free and now_s >= self.rests_until_s

    def add_in_flight(self, num_responses: int, now_s: float) -> float:
        """Count responses that begin, or end; returns responses in flight times seconds so far."""
        self._in_flight_seconds += self.in_flight * (now_s - self._counted_to_s)
        self._counted_to_s = now_s
        self.in_flight += num_responses
        return self._in_flight_seconds


class Fleet:
    """Servers of one model; a request goes to the least busy."""

    def __init__(
        self,
        servers: Sequence[Server],
        patience: Patience,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._live = list(servers)
        self._patience = patience
        self._clock = clock
        self._changed = asyncio.Event()

    async def post(
        self,
        path: str,
        num_responses: int,
        body_for: Callable[[Server], dict[str, Any]],
        read: Callable[[Any], Read],
    ) -> tuple[Read, Timing]:
        """Try once, at the server with the fewest responses in flight.

        Args:
            path: Below /v1.
            num_responses: That the request asks for.
            body_for: Makes the request, in a server's own words.
            read: Reads what was said; a Failure where it makes no sense.

        Raises:
            Refusal: The server will not answer this request.
            ServerFailure: No answer this time.
            Unanswered: The server will answer no request.
        """
        server = await self._take()
        began_s = self._clock()
        before = server.add_in_flight(num_responses, began_s)
        try:
            answered = read(await server.client.post(path, body_for(server)))
        except Failure as failure:
            raise ServerFailure(failure, server, is_own=server.answered_s > began_s) from None
        except Refusal:
            self._note_answer(server)
            raise
        finally:
            now_s = self._clock()
            after = server.add_in_flight(-num_responses, now_s)
            self._tell_waiting()
        self._note_answer(server)
        latency_s = now_s - began_s
        mean = (after - before) / latency_s if latency_s > 0 else num_responses
        return answered, Timing(latency_s, max(1, round(mean)))

    def rest(self, failure: "ServerFailure", seconds: float) -> None:
        """Leave a server alone that failed: so many seconds, as long as it asks for, or for good.

        Where the request alone is at fault, only a server that asks for it is left alone.

        Raises:
            Unanswered: That was the last one.
        """
        server, now_s = failure.server, self._clock()
        asked_s = failure.retry_after_s or 0.0
        if not failure.is_own or asked_s:
            server.rests_until_s = max(server.rests_until_s, now_s + max(seconds, asked_s))
        if not failure.is_own and server.failing_since_s is None:
            server.failing_since_s = now_s
            log.info(
                "--endpoint %s: %s; asking again for %s",
                server.client.name, failure, duration(self._patience.outage_s),
            )  # fmt: skip
        since_s = now_s if server.failing_since_s is None else server.failing_since_s
        is_dead = now_s - since_s >= self._patience.outage_s
        if server in self._live and (is_dead or asked_s > self._patience.longest_retry_after_s):
            self._bury(server, failure)
        self._tell_waiting()

    def _bury(self, server: Server, failure: "ServerFailure") -> None:
        self._live.remove(server)
        words = f"--endpoint {server.client.name}: is given up ({failure})"
        if not self._live:
            raise Unanswered(words)
        log.warning("%s; its requests go to the others", words)

    def _note_answer(self, server: Server) -> None:
        if server.failing_since_s is not None:
            server.failing_since_s = None
            log.info("--endpoint %s: answers again", server.client.name)
        server.answered_s = self._clock()

    async def _take(self) -> Server:
        """The server to ask, once there is one that is ready."""
        while True:
            now_s = self._clock()
            ready = [server for server in self._live if server.is_ready(now_s)]
            if ready:
                return min(ready, key=lambda server: server.in_flight)
            resting_s = min(server.rests_until_s for server in self._live) - now_s
            with suppress(TimeoutError):
                async with asyncio.timeout(resting_s if resting_s > 0 else None):
                    await self._changed.wait()

    def _tell_waiting(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class ServerFailure(Exception):
    """A try that failed, at which server, and whether other requests fared better there."""

    def __init__(self, failure: Failure, server: Server, is_own: bool) -> None:
        super().__init__(str(failure))
        self.server = server
        self.is_own = is_own
        self.kind = failure.kind
        self.retry_after_s = failure.retry_after_s
