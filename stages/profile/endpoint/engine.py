"""Servers as an engine: many requests in flight, each response kept as soon as it is there.

One request a response is the default: its latency and its tokens are then its own, and a kill loses
least. Where several are asked for at once (`n`), the latency is that of the longest, and the
tokens are counted by the tokenizer.

The event loop runs while the caller waits for responses, and rests while he writes them down.
"""

import asyncio
from collections.abc import Generator, Iterable
from typing import Any

from stages.profile.endpoint.asking import Asking
from stages.profile.endpoint.counting import Tokenizer
from stages.profile.endpoint.settings import EndpointSettings
from stages.profile.endpoint.wire import Wire
from stages.profile.engine import News, OnTokens, Request, Sampling, Unanswered


class EndpointEngine:
    """A model behind one server or several."""

    def __init__(
        self, settings: EndpointSettings, model: str, uses_template: bool = True, seed: int = 0
    ) -> None:
        """Nothing is sent yet.

        Args:
            settings: Which servers, and how they are asked.
            model: Its name at the servers.
            uses_template: Ask for chat, where the server applies the template; else bare text.
            seed: Of the requests, where the settings want them to have one.

        Raises:
            AspError: The tokenizer cannot be loaded.
        """
        self._settings = settings
        self._served_model = model
        self._is_chat = uses_template
        self._seed = seed
        self._tokenizer: Tokenizer | None = None
        if settings.tokenizer is not None:
            from stages.tokens.tokenizer import PromptTokenizer

            self._tokenizer = PromptTokenizer(settings.tokenizer)

    @property
    def model(self) -> str:
        """The name without where it lies: some servers call a model by its directory."""
        name = self._served_model
        return name.rstrip("/").rpartition("/")[2] if name.startswith(("/", ".")) else name

    def describe(self) -> dict[str, Any]:
        """What decides its answers: not which servers, nor how many requests at once."""
        return {
            "engine": "endpoint",
            "api": "chat" if self._is_chat else "completions",
            "sends_seeds": self._settings.sends_seeds,
            "tokenizer": self._tokenizer.name if self._tokenizer else None,
        }

    def answer(
        self, requests: Iterable[Request], sampling: Sampling, on_tokens: OnTokens
    ) -> Generator[News, None, None]:
        """Answer every request; yield what has come in since.

        Raises:
            Unanswered: No server is left, or none answers some of the requests.
        """
        wire = Wire(self._served_model, self._is_chat, sampling)
        with asyncio.Runner() as runner:
            asking = Asking(requests, wire, self._settings, self._tokenizer, self._seed, on_tokens)
            try:
                runner.run(asking.start())
                while news := runner.run(asking.news()):
                    yield news
            except (KeyboardInterrupt, Unanswered):
                if news := asking.take():
                    yield news
                raise
            finally:
                runner.run(asking.stop())
