"""One server: its answers as JSON, or why there is none.

The API key comes from the environment and goes into the request's header alone: what a server says
is scrubbed of it before it is shown.
"""

import asyncio
import json
import time
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.request import getproxies, proxy_bypass

import httpx

from stages.profile.endpoint.transport import Http1Transport
from stages.profile.engine import Unanswered
from stages.tables.errors import shorten

_LIST_TIMEOUT_S = 30.0
_TOO_LATE = (408, 504, 524)  # a gateway's own time-out
_FATAL = (401, 402, 403, 404, 405)  # no request will fare better


class Failure(Exception):
    """A try without an answer; another may have one."""

    def __init__(
        self,
        words: str,
        kind: Literal["timeout", "busy", "other"] = "other",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(words)
        self.kind = kind
        self.retry_after_s = retry_after_s


class Refusal(Exception):
    """This request will not be answered, however often it is made; others may."""


class Client:
    """What is said to one server, and heard."""

    def __init__(self, url: str, key: str | None, timeout_s: float) -> None:
        """Nothing is sent yet.

        Args:
            url: With `/v1` or without.
            key: The API key; None: none is sent.
            timeout_s: For the whole of a request.
        """
        base = httpx.URL(url.rstrip("/"))
        self._base = base if base.path.strip("/") else base.copy_with(path="/v1")
        self._key = key
        self._timeout_s = timeout_s
        self._headers = httpx.Headers({"content-type": "application/json"})
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._urls: dict[str, httpx.URL] = {}  # by path; to parse one takes as long as to send it
        self._transport = _transport(self._base)

    @property
    def name(self) -> str:
        """Its address, for messages."""
        return str(self._base)

    async def models(self) -> list[dict[str, Any]]:
        """What GET /models lists; nothing where the server has no such list.

        Raises:
            Failure: No answer.
            Unanswered: The key is wrong.
        """
        timeout_s = min(self._timeout_s, _LIST_TIMEOUT_S)
        response, body = await self._exchange("GET", "/models", b"", timeout_s)
        if response.status_code in (404, 405):
            return []
        listed = self._read(response, body)
        models = listed.get("data") if isinstance(listed, dict) else None
        return [m for m in models if isinstance(m, dict)] if isinstance(models, list) else []

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON that a request is answered with.

        Raises:
            Failure: No answer this time.
            Refusal: None to this request.
            Unanswered: None to any request.
        """
        content = json.dumps(body).encode()
        return self._read(*await self._exchange("POST", path, content, self._timeout_s))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _exchange(
        self, method: str, path: str, content: bytes, timeout_s: float
    ) -> tuple[httpx.Response, bytes]:
        if path not in self._urls:
            raw_path = self._base.raw_path + path.encode()
            self._urls[path] = self._base.copy_with(raw_path=raw_path)
        request = httpx.Request(method, self._urls[path], headers=self._headers, content=content)
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._transport.handle_async_request(request)
                return response, await response.aread()
        except TimeoutError:
            raise Failure(f"no answer in {timeout_s:g} s", "timeout") from None
        except httpx.TransportError as error:
            raise Failure(str(error) or type(error).__name__) from None

    def _read(self, response: httpx.Response, body: bytes) -> Any:
        if response.status_code != 200:
            self._raise_status(response, body)
        try:
            return json.loads(body)
        except ValueError:
            raise Failure(f"malformed JSON: {self._shown(body)}") from None

    def _raise_status(self, response: httpx.Response, body: bytes) -> None:
        status = response.status_code
        words = f"HTTP {status}: {self._shown(_message(body))}"
        if status in (401, 403):
            whose = "no API key was sent" if self._key is None else "with the API key sent"
            raise Unanswered(f"--endpoint {self.name}: {words} ({whose}; --api-key-variable)")
        if status in _FATAL or 300 <= status < 400:
            moved = response.headers.get("location")
            to = f"; it points to {moved}" if moved else ""
            raise Unanswered(f"--endpoint {self.name}: {words}{to}")
        if status in _TOO_LATE:
            raise Failure(words, "timeout")
        if status == 429 or status >= 500:
            kind: Literal["busy", "other"] = "busy" if status == 429 else "other"
            raise Failure(words, kind, _retry_after_s(response))
        raise Refusal(words)

    def _shown(self, said: bytes | str) -> str:
        """What a server said, for a line: short, and without the key."""
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        if self._key:
            text = text.replace(self._key, "***")
        return shorten(" ".join(text.split()), 300) or "(empty)"


def _transport(url: httpx.URL) -> httpx.AsyncBaseTransport:
    """Our own, but httpx's where the environment names a proxy for the server."""
    proxy = getproxies().get(url.scheme)
    if proxy is None or proxy_bypass(url.host):
        return Http1Transport()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncHTTPTransport(proxy=httpx.Proxy(proxy), limits=limits)


def _message(body: bytes) -> bytes | str:
    """What an error's body says, in one of the forms that servers use."""
    try:
        said = json.loads(body)
    except ValueError:
        return body
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and name in said:
            said = said[name]
    return said if isinstance(said, str) else json.dumps(said)


def _retry_after_s(response: httpx.Response) -> float | None:
    """Seconds that the server wants to be left alone, which it names as such or by a date."""
    said = response.headers.get("retry-after")
    if said is None:
        return None
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except ValueError:
        return None
