"""How servers are asked: where, how many requests at once, and with how much patience."""

from dataclasses import dataclass

DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"


@dataclass(frozen=True)
class Patience:
    """How long what goes wrong is tried again."""

    outage_s: float = 120.0  # a server that brings no answer for so long is dead
    first_wait_s: float = 0.5  # doubled with each try of a request
    longest_wait_s: float = 30.0
    longest_retry_after_s: float = 600.0  # a server that wants to be left alone longer is dead
    num_failures: int = 8  # of one request, while its server answers others
    num_timeouts: int = 2  # the same, where it took too long


@dataclass(frozen=True)
class EndpointSettings:
    """Servers, and the manner of asking them. Of no effect on lengths, but for the last two."""

    urls: tuple[str, ...]  # with or without /v1
    concurrency: int = 64  # requests in flight, over all servers
    request_timeout_s: float = 600.0
    samples_per_request: int = 1
    key_variable: str = DEFAULT_KEY_VARIABLE  # of the environment
    patience: Patience = Patience()
    tokenizer: str | None = None  # directory or name; counts where the server's counts are wrong
    sends_seeds: bool = False
