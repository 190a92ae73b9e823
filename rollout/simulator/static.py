"""When does a static minibatch end, and where does its time go?

An engine that decodes one minibatch at a time holds its slots until its longest response ends, or
its budget is reached; what has not ended at the time-out is given up.
"""

import math
from dataclasses import dataclass, field

from rollout.control.messages import Response, Work
from rollout.simulator.engines import TINY, Ended
from rollout.simulator.ledger import Ledger
from rollout.simulator.price import Price
from rollout.simulator.workload import Workload


@dataclass
class StaticEngine:
    """One minibatch at a time."""

    price: Price
    workload: Workload
    spent: Ledger = field(default_factory=Ledger)
    _work: Work | None = None
    _start_s: float = 0.0
    _num_steps: float = 0  # until the longest has ended, the budget is reached, or the time is over
    _context: int = 0
    _prefill_seconds: float = 0.0
    _carried_seconds: float = 0.0  # the part of it that prefills carried responses

    @property
    def num_active(self) -> int:
        """Slots held."""
        return len(self._work.responses) if self._work else 0

    def start(self, work: Work, now_s: float, deadline_s: float) -> bool:
        """No other one is welcome before it has ended."""
        assert self._work is None, "a static engine has one minibatch at a time"
        prompts = self.workload.prompt_tokens_g
        self._work, self._start_s = work, now_s
        self._context = sum(prompts[each.group] + each.tokens for each in work.responses)
        carried = sum(prompts[each.group] + each.tokens for each in work.responses if each.tokens)
        self._prefill_seconds = self.price.prefill * self._context
        self._carried_seconds = self.price.prefill * carried
        seconds = max(deadline_s - now_s - self._prefill_seconds, 0.0)
        self._num_steps = min(
            max(self._stop(each) - each.tokens for each in work.responses),
            self.price.num_steps(seconds, self.num_active, self._context),
        )
        return False

    def next_s(self) -> float:
        """When the last response has ended, or the time is over."""
        if self._work is None:
            return math.inf
        decode = self.price.decode_seconds(self._num_steps, self.num_active, self._context)
        return self._start_s + self._prefill_seconds + decode

    def advance(self, now_s: float) -> tuple[list[Ended], bool]:
        """The minibatch has ended."""
        work = self._work
        assert work is not None, "nothing is under way"
        self._spend(self._prefill_seconds, self._num_steps)
        cut, failed = [], []
        for each in work.responses:
            stop = self._stop(each)
            if stop - each.tokens > self._num_steps + TINY:
                failed.append(each)
                made = each.tokens + self._num_steps
                self._waste(each, each.tokens, made)
            elif stop < self._length(each):
                cut.append(each._replace(tokens=stop))
        self._work = None
        return [Ended(work, cut, failed)], True

    def stop(self, now_s: float) -> dict[int, list[Response]]:
        """Break off within a decode step."""
        work = self._work
        if work is None:
            return {}
        seconds = now_s - self._start_s - self._prefill_seconds
        num_steps = self.price.num_steps(max(seconds, 0.0), self.num_active, self._context)
        self._spend(min(self._prefill_seconds, now_s - self._start_s), num_steps)
        whole = int(num_steps + TINY)
        unfinished = []
        for each in work.responses:
            tokens = min(each.tokens + whole, self._stop(each))
            if tokens < self._length(each):
                unfinished.append(each._replace(tokens=tokens))
            begun = min(each.tokens + num_steps, self._stop(each))
            self._waste(each, tokens, max(begun, tokens))
        self._work = None
        return {work.number: unfinished}

    def lose(self, now_s: float) -> None:
        """The whole time since the dispatch."""
        if self._work is not None:
            self.spent.lost += (now_s - self._start_s) * self.price.num_devices
            self._work = None

    def _stop(self, response: Response) -> int:
        length = self._length(response)
        budget = self._work.token_budget if self._work else None
        return length if budget is None else min(length, budget)

    def _length(self, response: Response) -> int:
        return self.workload.lengths_g[response.group][response.sample]

    def _prompt(self, response: Response) -> int:
        return self.workload.prompt_tokens_g[response.group]

    def _spend(self, prefill_seconds: float, num_steps: float) -> None:
        """Enter the prefill and so many decode steps."""
        assert self._work is not None
        price, spent, size = self.price, self.spent, len(self._work.responses)
        share = prefill_seconds / self._prefill_seconds if self._prefill_seconds else 0.0
        carried = share * self._carried_seconds
        useful = sum(
            price.response_seconds(
                each.tokens, min(self._stop(each), each.tokens + num_steps), self._prompt(each)
            )
            for each in self._work.responses
        )
        held = price.slot_seconds(num_steps, size, self._context)
        spent.carry += carried * price.num_devices
        spent.useful += (prefill_seconds - carried + useful) * price.num_devices
        spent.padding += (held - useful) * price.num_devices
        empty = price.step * num_steps * (price.slots - size) / price.slots
        spent.skew += empty * price.num_devices

    def _waste(self, response: Response, start: int, stop: float) -> None:
        """What was decoded from one token to another is lost."""
        seconds = self.price.response_seconds(start, stop, self._prompt(response))
        self.spent.useful -= seconds * self.price.num_devices
        self.spent.lost += seconds * self.price.num_devices
