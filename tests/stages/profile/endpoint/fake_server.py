"""A small server with an OpenAI-compatible API that does whatever a test says."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

Json = dict[str, Any]
CAP = 64


@dataclass(frozen=True)
class Said:
    """What comes back for a request."""

    body: bytes
    status: int = 200
    headers: tuple[str, ...] = ()
    wait_s: float = 0.0  # before the first byte
    drip_s: float = 0.0  # between one byte and the next
    cut_at: int | None = None  # bytes after which the connection is dropped
    is_chunked: bool = False
    kills: float | None = None  # the server, for so many seconds


def answer(asked: Json, **changes: Any) -> Said:
    """A right answer: the seed decides the length, the text says it."""
    tokens = 1 + asked.get("seed", 0) % (CAP + 8)
    reason = "length" if tokens >= asked["max_tokens"] else "stop"
    tokens = min(tokens, asked["max_tokens"])
    held = {"index": 0, "finish_reason": reason}
    text = f"{asked.get('seed')} " + "word " * tokens
    is_chat = "messages" in asked
    held |= {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
    said = {
        "model": asked["model"],
        "choices": [held],
        "usage": {"prompt_tokens": 3, "completion_tokens": tokens},
    }
    return Said(json.dumps(said | changes).encode())


def error(status: int, message: str = "it is broken", *headers: str) -> Said:
    return Said(json.dumps({"error": {"message": message}}).encode(), status, headers)


Behaviour = Callable[[int, Json], Said]  # number of the request from 0, and its body


def well(number: int, asked: Json) -> Said:
    return answer(asked)


@dataclass
class FakeServer:
    """Serves model `m` from a thread while the block runs."""

    behave: Behaviour = well
    models: Said = Said(json.dumps({"data": [{"id": "m", "owned_by": "test"}]}).encode())
    asked: list[Json] = field(default_factory=list)
    asked_at_s: list[float] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    num_answered: int = 0  # right answers sent to their last byte
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "FakeServer":
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._die()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _die(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                await self._exchange(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:-1])
        content = await reader.readexactly(int(fields.get("content-length", 0)))
        self.heads.append(head)
        if head.startswith("GET /v1/models "):
            await self._say(writer, self.models)
            return
        asked = json.loads(content)
        self.asked.append(asked)
        self.asked_at_s.append(time.monotonic())
        said = self.behave(len(self.asked) - 1, asked)
        if said.kills is not None:
            self._die()
            self._loop.call_later(said.kills, lambda: self._loop.create_task(self._listen()))
            raise ConnectionError
        await self._say(writer, said)
        if b'"usage"' in said.body and said.cut_at is None:
            self.num_answered += 1

    async def _say(self, writer: asyncio.StreamWriter, said: Said) -> None:
        await asyncio.sleep(said.wait_s)
        lines = [f"HTTP/1.1 {said.status} Said", *said.headers]
        body = said.body
        if said.is_chunked:
            lines.append("Transfer-Encoding: chunked")
            middle = len(body) // 2
            chunks = (b"%x\r\n%b\r\n" % (len(c), c) for c in (body[:middle], body[middle:]))
            body = b"".join(chunks) + b"0\r\n\r\n"
        else:
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        if said.cut_at is not None:
            writer.write(body[: said.cut_at])
            await writer.drain()
            raise ConnectionError
        step = 1 if said.drip_s else len(body) + 1
        for start in range(0, len(body), step):
            writer.write(body[start : start + step])
            await writer.drain()
            await asyncio.sleep(said.drip_s)
