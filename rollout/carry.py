"""What do token budgets do to responses whose lengths are known?

In: one epoch of a schedule, and recorded lengths. Minibatches run in dispatch order on a static
engine. A response still running at its budget is cut, keeps its tokens, and waits for the next
round; a tail takes all that wait for its round, in as many equal minibatches as the slots ask for.
What a step trains on is not decided here: that is the Control Unit's part.

Arrays end in an axis legend: _s responses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.costs.model import CostModel
from stages.tables.utilization import utilization

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Responses:
    """Responses that run together or wait for the same round."""

    length_s: Ints  # recorded tokens of each
    carried_s: Ints  # tokens that it has already
    prompt_s: Ints
    group_s: Ints  # batch group in which it first ran

    def __len__(self) -> int:
        return len(self.length_s)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Responses":
        return Responses(
            self.length_s[rows], self.carried_s[rows], self.prompt_s[rows], self.group_s[rows]
        )


@dataclass
class Carried:
    """What it came to."""

    useful: int = 0  # tokens generated
    paid: int = 0  # slot-steps held
    prefilled: int = 0  # carried tokens that were prefilled again
    seconds: float = 0.0  # device time, prefill left out
    num_minibatches: int = 0  # that ran
    delay: dict[int, int] = field(default_factory=dict)  # by cut prompt: batch groups late

    def utilization(self, prefill_cost: float) -> float:
        """Useful over paid slot-steps; prefilling a carried token pays `prefill_cost`."""
        paid = self.paid + prefill_cost * self.prefilled
        return float(utilization(float(self.useful), paid))


def replay_carried(
    epoch: pl.DataFrame, samples: Mapping[int, Ints], cost_model: CostModel, num_slots: int
) -> Carried:
    """Run one epoch on recorded lengths.

    Args:
        epoch: Schedule rows of one epoch, in dispatch order.
        samples: Recorded lengths [tokens] by prompt_id; prompts without any are passed over.
        cost_model: Prices each minibatch; the lengths of prompts are left out.
        num_slots: Responses that a tail minibatch holds at most.
    """
    done = Carried()
    waiting: dict[int, list[Responses]] = {}  # by the round that they wait for

    def run(responses: Responses, number: int, budget: int | None) -> None:
        if not len(responses):
            return
        stop_s = responses.length_s if budget is None else np.minimum(responses.length_s, budget)
        start, stop = int(responses.carried_s.min()), int(stop_s.max())
        done.useful += int((stop_s - responses.carried_s).sum())
        done.paid += len(responses) * (stop - start)
        done.prefilled += int(responses.carried_s.sum())
        size = float(len(responses))
        done.seconds += cost_model.minibatch_seconds(float(stop), size)
        done.seconds -= cost_model.minibatch_seconds(float(start), size)
        done.num_minibatches += 1
        is_cut = responses.length_s > stop_s
        if is_cut.any():
            cut = responses[is_cut]
            carried = Responses(cut.length_s, stop_s[is_cut], cut.prompt_s, cut.group_s)
            waiting.setdefault(number + 1, []).append(carried)

    def run_tail(number: int, group: int, budget: int | None) -> None:
        pool = _together(waiting.pop(number, []))
        for prompt, first in zip(pool.prompt_s.tolist(), pool.group_s.tolist(), strict=True):
            done.delay[prompt] = max(done.delay.get(prompt, 0), group - first)
        for rows in np.array_split(np.arange(len(pool)), max(1, -(-len(pool) // num_slots))):
            run(pool[rows], number, budget)

    no_budget = pl.Series("token_budget", [None] * len(epoch), dtype=pl.Int64)
    rows = epoch.with_columns(epoch.get_column("token_budget", default=no_budget)).select(
        pl.col("kind").cast(pl.String), "round", "group_id", "token_budget", "prompt_ids"
    )
    group = 0
    for kind, number, group, budget, prompt_ids in rows.iter_rows():
        if kind == "head":
            run(_recorded(prompt_ids, samples, group), number, budget)
        else:
            run_tail(number, group, budget)
    while waiting:  # a plan without enough tails leaves some: they run to the end
        run_tail(min(waiting), group + 1, None)
    return done


def _recorded(prompt_ids: Iterable[int], samples: Mapping[int, Ints], group: int) -> Responses:
    known = [(prompt, samples[prompt]) for prompt in prompt_ids if prompt in samples]
    return _together(
        [
            Responses(
                length_s,
                np.zeros_like(length_s),
                np.full_like(length_s, prompt),
                np.full_like(length_s, group),
            )
            for prompt, length_s in known
        ]
    )


def _together(parts: list[Responses]) -> Responses:
    columns = zip(*((p.length_s, p.carried_s, p.prompt_s, p.group_s) for p in parts), strict=True)
    joined = [np.concatenate(column) for column in columns]
    return Responses(*joined) if joined else Responses(*(np.empty(0, dtype=np.int64),) * 4)
