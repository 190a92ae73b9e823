"""Which responses wait for a tail, and which tail can run?

A response cut in a minibatch of round r - 1 and step s goes on in round r, in the first later step
d that has a place for it. It waits in the bucket (d, r). A bucket is *ready* when nothing that
could still add to it is under way or to come: then its tail is full, and no straggler needs one of
its own. Every bucket of step d is ready once step d - 1 is complete, so waiting never locks.
"""

from collections import Counter
from dataclasses import dataclass, field

from rollout.control.messages import Response, Unfinished
from rollout.control.plan import Place, Plan


@dataclass
class Bucket:
    """Responses that wait for the tails of one step and round."""

    places: list[Place]
    responses: list[Response] = field(default_factory=list)


class Carried:
    """All buckets, and what may still add to them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._buckets: dict[tuple[int, int], Bucket] = {}
        self._places = {key: list(places) for key, places in plan.places.items()}
        # By round: steps of the minibatches under way whose responses may be cut, with their number
        self._feeders: list[Counter[int]] = [Counter() for _ in plan.budget_r]

    def feed(self, round_: int, step: int) -> None:
        """Work that may be cut is under way."""
        self._feeders[round_][step] += 1

    def fed(self, round_: int, step: int) -> None:
        """It has ended."""
        feeders = self._feeders[round_]
        feeders[step] -= 1
        if not feeders[step]:
            del feeders[step]

    def wait(self, round_: int, step: int, responses: list[Response]) -> None:
        """Responses are cut, and go on in this round and step."""
        key = (step, round_)
        if key not in self._buckets:
            self._buckets[key] = Bucket(self._places.pop(key, []))
        self._buckets[key].responses += responses

    def waiting(self) -> list[Unfinished]:
        """All responses in the buckets."""
        return [
            Unfinished(step, round_, response)
            for (step, round_), bucket in self._buckets.items()
            for response in bucket.responses
        ]

    def ready(self, first_head: int | None) -> tuple[int, int] | None:
        """Step and round of the bucket to go next: nearest step, then highest round.

        Args:
            first_head: Step of the first head that was not dispatched; None: all were.
        """
        if not self._buckets:
            return None
        earliest_r = self._earliest(first_head)
        for step, round_ in sorted(self._buckets, key=lambda key: (key[0], -key[1])):
            feeder = earliest_r[round_ - 1]
            if feeder is None or feeder >= step:
                return step, round_
        return None

    def take(self, step: int, round_: int, slots: int) -> tuple[list[Response], Place | None]:
        """Responses for a tail, in as many equal tails as the slots ask for, and its place."""
        bucket = self._buckets[step, round_]
        num_waiting = len(bucket.responses)
        num_tails = -(-num_waiting // slots)
        size = -(-num_waiting // num_tails)
        taken, bucket.responses = bucket.responses[:size], bucket.responses[size:]
        place = bucket.places.pop(0) if bucket.places else None
        if not bucket.responses:
            del self._buckets[step, round_]
        return taken, place

    def _earliest(self, first_head: int | None) -> list[int | None]:
        """By round: the first step with a minibatch that may still be cut; None: there is none."""
        earliest_r: list[int | None] = []
        for round_, feeders in enumerate(self._feeders):
            steps = list(feeders)
            if round_ == 0:
                if first_head is not None:
                    steps.append(first_head)
            else:
                steps += [step for step, number in self._buckets if number == round_]
                before = earliest_r[-1]
                later = None if before is None else self._plan.next_tail(round_, before)
                if later is not None:
                    steps.append(later)
            earliest_r.append(min(steps, default=None))
        return earliest_r
