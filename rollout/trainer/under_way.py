"""Which work is under way, with which actor, and until when?

The time of a sample group begins with its first dispatch, and goes on where its work is handed out
again. What waits for a tail takes no time: it has its own from when it goes on.
"""

from collections.abc import Iterable

from rollout.control.messages import Response, Work


class UnderWay:
    """Work that was dispatched and has not come back."""

    def __init__(self, timeout_s: float) -> None:
        """Begin empty; a minibatch has so many seconds from its dispatch."""
        self._timeout_s = timeout_s
        self._works: dict[int, tuple[Work, int]] = {}  # by number, with their actor
        self._deadline_g: dict[int, float] = {}

    def begin(self, work: Work, actor: int, now_s: float) -> float:
        """It is dispatched; seconds that it has, below 0 where its time is over."""
        self._works[work.number] = work, actor
        groups = {response.group for response in work.responses}
        for group in groups:
            self._deadline_g.setdefault(group, now_s + self._timeout_s)
        return min(self._deadline_g[group] for group in groups) - now_s

    def end(self, number: int) -> Work | None:
        """It came back; None: it was not under way any more."""
        found = self._works.pop(number, None)
        return found[0] if found else None

    def lose(self, actor: int) -> None:
        """The actor is gone, with its work."""
        self._works = {n: entry for n, entry in self._works.items() if entry[1] != actor}

    def actor_of(self, work: Work) -> int | None:
        """Who still has it; None: it came back or was lost."""
        found = self._works.get(work.number)
        return found[1] if found and found[0] is work else None

    def cut(self, responses: Iterable[Response]) -> None:
        """They wait for a tail."""
        for response in responses:
            self._deadline_g.pop(response.group, None)
