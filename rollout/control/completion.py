"""Which sample groups are complete?

A sample group is complete when none of its responses is missing; then it is scored, once.
"""

from collections.abc import Iterable, Sequence

from rollout.control.messages import HeldOver, Response, Work


class Completion:
    """Responses that have not ended, and complete groups without a reward."""

    def __init__(self, samples_g: Sequence[int]) -> None:
        """All responses of each sample group are missing."""
        self._samples_g = samples_g
        self._missing_g = list(samples_g)
        self._unscored: set[int] = set()

    def resumed(self, held: Iterable[HeldOver]) -> tuple[int, ...]:
        """These were begun before the run; those that are complete."""
        complete = []
        for each in held:
            self._missing_g[each.group] = len(each.unfinished)
            if not each.unfinished:
                complete.append(each.group)
        self._unscored.update(complete)
        return tuple(complete)

    def ended(self, work: Work, unfinished: Iterable[Response]) -> tuple[int, ...]:
        """All responses of a minibatch have ended but these; its groups that are complete now."""
        for response in work.responses:
            self._missing_g[response.group] -= 1
        for response in unfinished:
            self._missing_g[response.group] += 1
        groups = dict.fromkeys(response.group for response in work.responses)
        complete = tuple(group for group in groups if not self._missing_g[group])
        self._unscored.update(complete)
        return complete

    def restarted(self, cut: Iterable[Response]) -> None:
        """The sample groups of these begin again, whole."""
        for response in cut:
            self._missing_g[response.group] = self._samples_g[response.group]

    def scored(self, groups: Iterable[int]) -> list[int]:
        """These have rewards; those that waited for them."""
        awaited = []
        for group in groups:
            if group in self._unscored:
                self._unscored.remove(group)
                awaited.append(group)
        return awaited
