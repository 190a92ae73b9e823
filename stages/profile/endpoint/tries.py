"""How often is one request made, and how long does it wait in between?

After a failure it waits, twice as long as the time before; the server that failed may have to be
left alone for longer (`fleet.py`), and then another one is asked.
"""

from dataclasses import dataclass

from tenacity import RetryCallState, wait_exponential, wait_random

from stages.profile.endpoint.fleet import ServerFailure
from stages.profile.endpoint.settings import Patience


@dataclass
class Tries:
    """The tries of one request, as tenacity asks for them."""

    patience: Patience
    num_failures: int = 0  # while the server answered others
    num_timeouts: int = 0

    def wait(self, state: RetryCallState) -> float:
        """Longer with each try, and by chance, for others wait too."""
        first_s, longest_s = self.patience.first_wait_s, self.patience.longest_wait_s
        wait = wait_exponential(first_s, longest_s) + wait_random(0, first_s)
        return float(wait(state))

    def are_over(self, state: RetryCallState) -> bool:
        """Whether the request is at fault: only its own failures count."""
        failure = failure_of(state)
        if failure.is_own and failure.kind != "busy":
            self.num_failures += 1
            self.num_timeouts += failure.kind == "timeout"
        return (
            self.num_failures >= self.patience.num_failures
            or self.num_timeouts >= self.patience.num_timeouts
        )


def failure_of(state: RetryCallState) -> ServerFailure:
    """How the last try failed."""
    failure = state.outcome.exception() if state.outcome else None
    assert isinstance(failure, ServerFailure), "nothing else is tried again"
    return failure
