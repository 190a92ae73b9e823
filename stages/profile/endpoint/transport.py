"""HTTP/1.1 over asyncio streams: what a request costs, without what a browser needs.

A transport of httpx in place of its own, whose layers take several times the CPU
(benchmarks/endpoint_client.py): with hundreds of requests in flight a core has better things to do.
Connections are kept alive; bodies have a length, are chunked, or end with the connection. Neither
proxies nor redirects nor compression, which is not asked for.
"""

import asyncio
import ssl
from collections.abc import Mapping

import httpx

_CONNECT_TIMEOUT_S = 10.0
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Http1Transport(httpx.AsyncBaseTransport):
    """Connections to one server, as many as there are requests at once."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []
        self._tls: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; return its response, read to the end.

        Raises:
            httpx.TransportError: There was none, or not all of it.
        """
        while self._idle:
            connection = self._idle.pop()
            try:
                return await self._exchange(connection, request)
            except _Stale:
                pass  # the server closed it while it was idle
        try:
            return await self._exchange(await self._connect(request.url), request)
        except _Stale:
            raise httpx.RemoteProtocolError("connection closed without an answer") from None

    async def aclose(self) -> None:
        """Close what is idle; what is in use closes itself when it is cancelled."""
        while self._idle:
            self._idle.pop()[1].close()

    async def _connect(self, url: httpx.URL) -> _Connection:
        is_tls = url.scheme == "https"
        if is_tls and self._tls is None:
            self._tls = httpx.create_ssl_context()
        port = url.port or (443 if is_tls else 80)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                return await asyncio.open_connection(
                    url.host, port, ssl=self._tls if is_tls else None
                )
        except TimeoutError:
            raise httpx.ConnectTimeout(f"no connection in {_CONNECT_TIMEOUT_S:.0f} s") from None
        except OSError as error:
            raise httpx.ConnectError(_reason(error)) from None

    async def _exchange(self, connection: _Connection, request: httpx.Request) -> httpx.Response:
        reader, writer = connection
        is_kept = False
        try:
            writer.write(_head(request) + request.content)
            await writer.drain()
            response, is_kept = await _read_response(reader)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise httpx.ReadError(_reason(error)) from None
        finally:
            if is_kept:
                self._idle.append(connection)
            else:
                writer.close()
        return response


class _Stale(Exception):
    """The connection was closed before the first byte of an answer."""


def _head(request: httpx.Request) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%s: %s" % header for header in request.headers.raw]
    return b"\r\n".join(lines) + b"\r\n\r\n"


async def _read_response(reader: asyncio.StreamReader) -> tuple[httpx.Response, bool]:
    """A response, and whether the connection can serve another request."""
    status = 100
    while 100 <= status < 200:  # 100 Continue and the like come before the response
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            raise error if error.partial else _Stale from None
        except ConnectionError:
            raise _Stale from None
        first, *lines = head[:-4].split(b"\r\n")
        version, _, rest = first.partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise httpx.RemoteProtocolError("what answers does not speak HTTP/1.1")
        status = int(rest[:3])
    fields = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    headers = {name.lower(): value.lower() for name, value in fields}
    content, has_end = await _read_body(reader, headers)
    is_kept = has_end and version == b"HTTP/1.1" and headers.get(b"connection") != b"close"
    return httpx.Response(status, headers=fields, content=content), is_kept


async def _read_body(
    reader: asyncio.StreamReader, headers: Mapping[bytes, bytes]
) -> tuple[bytes, bool]:
    """The body, and whether it ended before the connection did."""
    try:
        if b"chunked" in headers.get(b"transfer-encoding", b""):
            chunks = []
            while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
                chunks.append(await reader.readexactly(size))
                await reader.readexactly(2)
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass  # trailing fields
            return b"".join(chunks), True
        if b"content-length" in headers:
            return await reader.readexactly(int(headers[b"content-length"])), True
        return await reader.read(), False
    except ValueError:
        raise httpx.RemoteProtocolError("its length is no number") from None


def _reason(error: Exception) -> str:
    if isinstance(error, asyncio.IncompleteReadError):
        return "connection closed in the middle of an answer"
    if isinstance(error, asyncio.LimitOverrunError):
        return "an answer's head is too long"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
