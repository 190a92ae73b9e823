"""When do responses end under continuous batching, and where does the time go?

A slot is refilled as soon as its response ends. The engine asks for the next minibatch when it has
a slot that nothing waits for. A response that stopped at its budget in a minibatch that is then put
down goes back with it, and is prefilled once more before it counts as cut. What has not ended at
the time-out of its minibatch is given up.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

from rollout.control.messages import Response, Work
from rollout.simulator.engines import TINY, Ended
from rollout.simulator.ledger import Ledger
from rollout.simulator.price import Price
from rollout.simulator.slots import Running, Slot, Waits
from rollout.simulator.workload import Workload


@dataclass
class ContinuousEngine:
    """Slots refill."""

    price: Price
    workload: Workload
    spent: Ledger = field(default_factory=Ledger)
    _slots: list[Slot] = field(default_factory=list)  # a heap
    _backlog: deque[Waits] = field(default_factory=deque)
    _works: dict[int, Running] = field(default_factory=dict)
    _num_started: int = 0
    _step: float = 0.0  # decode steps made
    _time_s: float = 0.0  # of that; ahead of the clock while a prefill is under way
    _context: float = 0.0  # tokens of all slots
    _carried_seconds: float = 0.0  # prefill of carried responses under way
    _has_asked: bool = True
    _deadline_s: float = math.inf  # the next one of its minibatches

    @property
    def num_active(self) -> int:
        """Slots with a response."""
        return len(self._slots)

    def start(self, work: Work, now_s: float, deadline_s: float) -> bool:
        """Another minibatch is welcome where this one leaves a slot empty."""
        self._decode(now_s)
        self._works[work.number] = Running(work, len(work.responses), deadline_s)
        self._deadline_s = min(self._deadline_s, deadline_s)
        lengths, prompts, budget = (
            self.workload.lengths_g, self.workload.prompt_tokens_g, work.token_budget,
        )  # fmt: skip
        for response in work.responses:
            group, sample, tokens = response
            length = lengths[group][sample]
            stop = length if budget is None or length < budget else budget
            self._backlog.append(Waits(work.number, response, stop, prompts[group] + tokens))
        self._has_asked = False
        self._fill()
        return self._asks()

    def next_s(self) -> float:
        """When the next response ends, or a minibatch times out."""
        if not self._slots:
            return math.inf
        left = max(self._slots[0].end - self._step, 0.0)
        end_s = self._time_s + self.price.decode_seconds(left, len(self._slots), self._context)
        return min(end_s, self._deadline_s)

    def advance(self, now_s: float) -> tuple[list[Ended], bool]:
        """Responses end, and others take their slots."""
        slots = self._slots
        is_late = self._deadline_s <= now_s
        if is_late:
            self._decode(now_s)
        else:
            self._spend(max(slots[0].end - self._step, 0.0))
            self._time_s, self._carried_seconds = now_s, 0.0
        ended = []
        due = self._step + TINY
        while slots and slots[0].end <= due:
            number, response, stop, context = heapq.heappop(slots).begun
            self._context -= context - response.tokens + stop
            running = self._works[number]
            running.num_left -= 1
            if stop == running.work.token_budget and stop < self._length(response):
                running.cut.append(response._replace(tokens=stop))
            if not running.num_left:
                del self._works[number]
                ended.append(Ended(running.work, running.cut, []))
        if is_late:
            ended += self._give_up(now_s)
        if ended:
            deadlines = (running.deadline_s for running in self._works.values())
            self._deadline_s = min(deadlines, default=math.inf)
        self._fill()
        return ended, self._asks()

    def stop(self, now_s: float) -> dict[int, list[Response]]:
        """Break off within a decode step, or within a prefill."""
        self._decode(now_s)
        self._refund(now_s)
        unfinished: dict[int, list[Response]] = {
            number: list(running.cut) for number, running in self._works.items()
        }
        for slot in sorted(self._slots, key=lambda slot: slot.sequence):
            begun, made = slot.begun, self._made(slot)
            tokens = max(int(made + TINY), begun.response.tokens)
            unfinished[begun.work].append(begun.response._replace(tokens=tokens))
            self._waste(begun.response, tokens, max(made, tokens))
        for waits in self._backlog:
            unfinished[waits.work].append(waits.response)
        self._clear()
        return unfinished

    def lose(self, now_s: float) -> None:
        """All that was made since the dispatches; what its slots held besides stays as it is."""
        self._decode(now_s)
        self._refund(now_s)
        made = {slot.begun.response[:2]: self._made(slot) for slot in self._slots}
        queued = {waits.response[:2] for waits in self._backlog}
        for running in self._works.values():
            budget = running.work.token_budget
            for response in running.work.responses:
                key = response[:2]
                if key not in queued:
                    length = self._length(response)
                    stop = made.get(key, length if budget is None else min(length, budget))
                    self._waste(response, response.tokens, stop)
        self._clear()

    def _give_up(self, now_s: float) -> list[Ended]:
        """End the minibatches whose time is over; what was made of their last responses is lost."""
        late = {
            number: running
            for number, running in self._works.items()
            if running.deadline_s <= now_s
        }
        failed: dict[int, list[Response]] = {number: [] for number in late}
        kept = []
        for slot in sorted(self._slots, key=lambda slot: slot.sequence):
            number, response, _, context = slot.begun
            if number not in late:
                kept.append(slot)
                continue
            made = self._made(slot)
            self._context -= context - response.tokens + made
            self._waste(response, response.tokens, made)
            failed[number].append(response)
        for waits in self._backlog:
            if waits.work in late:
                failed[waits.work].append(waits.response)
        self._backlog = deque(waits for waits in self._backlog if waits.work not in late)
        self._slots = kept
        heapq.heapify(self._slots)
        for number in late:
            del self._works[number]
        return [Ended(late[number].work, late[number].cut, failed[number]) for number in late]

    def _made(self, slot: Slot) -> float:
        """Tokens of a response, a part of the next one among them."""
        return slot.begun.response.tokens + (self._step - slot.start)

    def _asks(self) -> bool:
        """Whether a slot has just been left empty."""
        is_short = not self._backlog and len(self._slots) < self.price.slots
        asks = is_short and not self._has_asked
        self._has_asked = self._has_asked or asks
        return asks

    def _fill(self) -> None:
        """Start what waits; the actor prefills it before it decodes on."""
        price, backlog, slots = self.price, self._backlog, self._slots
        while backlog and len(slots) < price.slots:
            begun = backlog.popleft()
            _, response, stop, context = begun
            self._context += context
            end = self._step + (stop - response.tokens)
            heapq.heappush(slots, Slot(end, self._num_started, self._step, begun))
            self._num_started += 1
            if price.prefill:
                prefill = price.prefill * context
                self._time_s += prefill
                if response.tokens:
                    self._carried_seconds += prefill
                    self.spent.carry += prefill * price.num_devices
                else:
                    self.spent.useful += prefill * price.num_devices

    def _decode(self, now_s: float) -> None:
        """Decode until now, which is not after the next end."""
        if not self._slots:
            self._time_s = now_s
        elif now_s > self._time_s:
            seconds = now_s - self._time_s
            steps = self.price.num_steps(seconds, len(self._slots), self._context)
            self._spend(min(steps, max(self._slots[0].end - self._step, 0.0)))
            self._time_s, self._carried_seconds = now_s, 0.0

    def _spend(self, num_steps: float) -> None:
        """Enter so many decode steps with the slots as they are."""
        price, size = self.price, len(self._slots)
        useful = price.slot_seconds(num_steps, size, self._context)
        self.spent.useful += useful * price.num_devices
        empty = price.step * num_steps * (price.slots - size) / price.slots
        self.spent.skew += empty * price.num_devices
        self._step += num_steps
        self._context += size * num_steps

    def _refund(self, now_s: float) -> None:
        """Of a prefill that was entered ahead, what has not been done."""
        ahead = max(self._time_s - now_s, 0.0)
        carried = min(ahead, self._carried_seconds)
        self.spent.carry -= carried * self.price.num_devices
        self.spent.useful -= (ahead - carried) * self.price.num_devices

    def _waste(self, response: Response, start: int, stop: float) -> None:
        """What was decoded from one token to another is lost."""
        prompt = self.workload.prompt_tokens_g[response.group]
        seconds = self.price.response_seconds(start, stop, prompt)
        self.spent.useful -= seconds * self.price.num_devices
        self.spent.lost += seconds * self.price.num_devices

    def _length(self, response: Response) -> int:
        return self.workload.lengths_g[response.group][response.sample]

    def _clear(self) -> None:
        self._slots.clear()
        self._backlog.clear()
        self._works.clear()
        self._step = self._context = self._carried_seconds = 0.0
        self._has_asked = True
        self._deadline_s = math.inf
