"""What does a response cost the client of `asp profile --endpoint`?

CPU time of this process a response, with 200 requests in flight to a server in another process
that answers at once: all that asking does, the journal on disk included. Beside it the same
requests through httpx's own client, with one connection pool for all and with one for each in
flight, and through the transport that takes its place. The claim is less than 1 ms.

    python benchmarks/endpoint_client.py
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
from machine import heading

from stages.profile.allowance import Allowance
from stages.profile.asking import ask
from stages.profile.endpoint.engine import EndpointEngine
from stages.profile.endpoint.settings import EndpointSettings
from stages.profile.endpoint.transport import Http1Transport
from stages.profile.engine import Request, Sampling
from stages.profile.forecast import Outlook
from stages.profile.journal import open_journal

CONCURRENCY = 200
NUM_RESPONSES = 2000
PROMPT = "Explain how a tide comes about. " * 10
BODY = json.dumps(
    {"model": "m", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 512}
).encode()

SERVER = """
import asyncio, json
message = {"role": "assistant", "content": "word " * 300}
choice = {"index": 0, "message": message, "finish_reason": "stop"}
usage = {"prompt_tokens": 70, "completion_tokens": 301, "total_tokens": 371}
said = {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
body = json.dumps(said).encode()
head = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"

async def serve(reader, writer):
    try:
        while True:
            asked = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
            if b"content-length: " in asked:
                await reader.readexactly(int(asked.split(b"content-length: ")[1].split()[0]))
            answer = b'{"data": []}' if asked.startswith(b"get") else body
            writer.write(head % len(answer) + answer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


def asking(url: str) -> float:
    """CPU seconds of asking, the journal included."""
    engine = EndpointEngine(EndpointSettings((url,), concurrency=CONCURRENCY), "m")
    requests = [Request(number, PROMPT, 0) for number in range(NUM_RESPONSES)]
    with (
        tempfile.TemporaryDirectory() as folder,
        open_journal(str(Path(folder) / "p.parquet"), {}, False) as journal,
    ):
        start_s = time.process_time()
        outlook = Outlook((), (), 512, 0)
        ask(engine, requests, journal, Sampling(1.0, 512), Allowance(None), outlook)
        return time.process_time() - start_s


async def posting(ask_once: Callable[[int], Awaitable[bytes]]) -> float:
    """CPU seconds of requests alone, their JSON read."""
    left = iter(range(NUM_RESPONSES))

    async def work(worker: int) -> None:
        for _ in left:
            json.loads(await ask_once(worker))

    start_s = time.process_time()
    await asyncio.gather(*map(work, range(CONCURRENCY)))
    return time.process_time() - start_s


async def through_clients(url: str, num_clients: int) -> float:
    """CPU seconds through httpx's own client."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    clients = [
        httpx.AsyncClient(limits=limits, timeout=None, verify=False) for _ in range(num_clients)
    ]

    async def ask_once(worker: int) -> bytes:
        response = await clients[worker % num_clients].post(url, content=BODY)
        return response.content

    return await posting(ask_once)


async def through_transport(address: str) -> float:
    """CPU seconds through the transport alone."""
    transport, url = Http1Transport(), httpx.URL(address)

    async def ask_once(worker: int) -> bytes:
        response = await transport.handle_async_request(httpx.Request("POST", url, content=BODY))
        return response.content

    return await posting(ask_once)


def main() -> None:
    """Print the table."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    chat = f"{url}/v1/chat/completions"
    try:
        measured: dict[str, Callable[[], float]] = {
            "asking, with the journal": lambda: asking(url),
            "the transport alone": lambda: asyncio.run(through_transport(chat)),
            "httpx.AsyncClient, one": lambda: asyncio.run(through_clients(chat, 1)),
            "httpx.AsyncClient, one a worker": lambda: asyncio.run(
                through_clients(chat, CONCURRENCY)
            ),
        }
        print(heading("What a response costs the client"))
        print(f"{NUM_RESPONSES} responses of 300 words, {CONCURRENCY} requests in flight.\n")
        print("| way | CPU a response, best of 3 [ms] | worst [ms] |\n|---|---|---|")
        for name, measure in measured.items():
            cpu_ms = [1000 * measure() / NUM_RESPONSES for _ in range(3)]
            print(f"| {name} | {min(cpu_ms):.2f} | {max(cpu_ms):.2f} |", flush=True)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
