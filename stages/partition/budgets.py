"""After how many tokens should stragglers stop waiting to be waited for?

A minibatch on a static engine holds all its slots until its longest response ends. With a *ladder*
of token budgets T_1 < T_2 < ... it stops at T_1; responses still running keep their tokens and
continue in tail minibatches, which stop at T_2, and so on; the last round runs to the end. One
ladder serves the whole plan: every response of a round has exactly as many tokens as the others,
so none waits for another to catch up, and tails fill quickly. (Why not budgets by minibatch:
docs/decisions/0007-token-budgets.md.)

The ladder minimises expected device time by dynamic programming over a log-spaced grid of tokens:

    heads to T_1 + sum over rounds r of  tails from T_r to T_(r+1) + prefill of what is carried

A carried response waits until its tail runs, in a later training step. With *windows* of w batch
groups, those cut in one window continue in the next, so after R rounds a sample group completes at
most (R + 1) w - 1 steps late. That is held within the lag bound, so at a bound of 0 there are no
budgets.

Arrays end in an axis legend: _q points of the token grid, _k candidate budgets, _r tail rounds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.costs.model import CostModel
from stages.partition.unfinished import Floats, Unfinished

Ints = NDArray[np.int64]

UNKNOWN_PREFILL_COST = 0.1  # device time of a token's prefill over one decode step of one slot
STRIDE = 4  # points of the token grid from one candidate budget to the next
WORTH_A_STEP = 0.01  # share of device time below which a plan with less lag is preferred


@dataclass(frozen=True)
class BudgetConfig:
    """What budgets may do."""

    max_lag: int = 0  # steps that a cut sample group may complete after its own; 0: no budgets
    max_rounds: int = 6  # continuations of a response, at most
    prefill_cost: float | None = None  # None: the cost model's, else UNKNOWN_PREFILL_COST
    group_size: int = 8  # minibatches a training step


@dataclass(frozen=True)
class Engine:
    """The static engine that generates: its costs, and the minibatch that fills it."""

    model: CostModel
    num_slots: int  # responses of a full minibatch
    prompt_tokens: float  # mean length of a prompt; 0 where unknown
    prefill_cost: float  # device time of a token's prefill over one decode step of one slot

    @property
    def prefill_seconds(self) -> float:
        """Of one carried token."""
        return self.prefill_cost * self.model.slot_seconds(self.num_slots)


@dataclass(frozen=True)
class TailRound:
    """One round of continuations, in expectation."""

    carried_tokens: int  # that each of its responses has at the start
    token_budget: int | None  # at which it stops; None: it runs to the end
    num_responses: float
    num_groups: float  # sample groups that these belong to
    num_minibatches: int  # in each window
    tokens: float  # generated in one minibatch
    longest: float  # tokens that one minibatch runs for
    seconds: float  # of one minibatch, prefill included


@dataclass(frozen=True)
class Ladder:
    """Budgets for a whole plan, and what they are expected to bring."""

    rounds: tuple[TailRound, ...]  # none: no budgets
    window: int  # batch groups whose cut responses continue together
    num_windows: int
    seconds: float  # device time of all minibatches
    seconds_without: float  # the same without budgets
    prefill_cost: float  # as the plan takes it to be

    @property
    def largest_delay(self) -> int:
        """Training steps that a cut sample group completes late, at most."""
        return (len(self.rounds) + 1) * self.window - 1 if self.rounds else 0

    @property
    def mean_delay(self) -> float:
        """Training steps that a cut sample group completes late, on average.

        Cut anywhere in a window and continued anywhere in the next: w steps a round.
        """
        if not self.rounds:
            return 0.0
        return self.window * sum(r.num_groups for r in self.rounds) / self.rounds[0].num_groups

    def results(self, num_prompts: int) -> dict[str, object]:
        """What a footer says of it."""
        tails = sum(tail.num_minibatches for tail in self.rounds)
        return {
            "token_budgets": [tail.carried_tokens for tail in self.rounds],
            "tail_window": self.window,
            "num_tails": tails * self.num_windows,
            "cut_groups": self.rounds[0].num_groups / num_prompts if self.rounds else 0.0,
            "mean_delay": self.mean_delay,
            "largest_delay": self.largest_delay,
            "device_seconds": self.seconds,
            "device_seconds_without": self.seconds_without,
            "prefill_cost": self.prefill_cost,
        }


def plan_ladder(
    curves: Unfinished, engine: Engine, prompt_tokens_b: Floats, config: BudgetConfig
) -> Ladder:
    """The ladder of least expected device time that the lag bound allows.

    Of plans within WORTH_A_STEP of the least, the one with the smallest largest delay: lag is not
    free. No ladder where none is expected to save time.

    Args:
        curves: Of the head minibatches.
        engine: Its model gives the seconds.
        prompt_tokens_b: Prompt tokens of each head, once for every response; 0 where unknown.
        config: Lag bound, rounds and group size.
    """
    num_groups = -(-len(curves.any_bq) // config.group_size)
    heads_q = _head_seconds(curves, engine.model, prompt_tokens_b)
    without = float(heads_q[-1])
    found: list[tuple[float, int, int, list[int]]] = []  # seconds, delay, window, budgets
    window = 1
    while window <= num_groups and (config.max_lag + 1) // window >= 2:
        most = min(config.max_rounds, (config.max_lag + 1) // window - 1)
        num_windows = -(-num_groups // window)
        for rounds, (seconds, points) in enumerate(
            _best_ladders(curves, heads_q, engine, num_windows, most), start=1
        ):
            if seconds < without * (1 - 1e-9):
                found.append((seconds, (rounds + 1) * window - 1, window, points))
        window *= 2
    if not found:
        return Ladder((), 1, num_groups, without, without, engine.prefill_cost)
    least = min(seconds for seconds, *_ in found)
    near = [plan for plan in found if plan[0] <= least * (1 + WORTH_A_STEP)]
    seconds, _, window, points = min(near, key=lambda plan: (plan[1], plan[0]))
    num_windows = -(-num_groups // window)
    rounds_ = tuple(
        _tail_round(curves, engine, num_windows, point, stop)
        for point, stop in zip(points, [*points[1:], None], strict=True)
    )
    return Ladder(rounds_, window, num_windows, seconds, without, engine.prefill_cost)


def _head_seconds(curves: Unfinished, model: CostModel, prompt_tokens_b: Floats) -> Floats:
    """Expected seconds of all heads, were they stopped at each length of the grid."""
    c0_b, c1_b, c2_b = model.coefficients(curves.responses_bq[:, 0], prompt_tokens_b)
    rate_q = c1_b @ curves.any_bq + 2 * curves.t_q * (c2_b @ curves.any_bq)
    seconds_q: Floats = c0_b.sum() + curves.up_to(rate_q)
    return seconds_q


def _best_ladders(
    curves: Unfinished, heads_q: Floats, engine: Engine, num_windows: int, most: int
) -> list[tuple[float, list[int]]]:
    """For 1 to `most` rounds: least expected seconds, and the grid points of the budgets."""
    last = len(curves.t_q) - 1
    points = np.append(np.arange(STRIDE, last, STRIDE), last)
    running_k = curves.responses_q[points]
    tails_kk = np.array([_tail_seconds(curves, engine, num_windows, k)[points] for k in points])
    tails_kk[np.tril_indices(len(points))] = np.inf
    # go_on_k: seconds from the cut at budget k until all of its responses have ended. The last
    # point is the end itself: nothing runs there.
    go_on_k = np.where(points == last, 0.0, np.inf)
    chosen: list[Ints] = []
    ladders = []
    for _ in range(most):
        total_kk = tails_kk + go_on_k
        chosen.append(total_kk.argmin(axis=1))
        go_on_k = np.where((points == last) | (running_k <= 0), 0.0, total_kk.min(axis=1))
        first = int(np.argmin(heads_q[points] + go_on_k))
        ladder, k = [], first
        for choice in reversed(chosen):
            if points[k] == last:
                break
            ladder.append(int(points[k]))
            k = int(choice[k])
        ladders.append((float(heads_q[points[first]] + go_on_k[first]), ladder))
    return ladders


def _share(curves: Unfinished, engine: Engine, num_windows: int, point: int) -> tuple[int, float]:
    """Tail minibatches in each window that begin at a grid point, and the responses of one."""
    in_window = float(curves.responses_q[point]) / num_windows
    num_minibatches = max(1, int(np.ceil(in_window / engine.num_slots - 1e-9)))
    return num_minibatches, in_window / num_minibatches


def _any_running(curves: Unfinished, point: int, num_responses: float) -> Floats:
    """Chance that any of so many responses, cut at a grid point, is running at each length.

    They are taken as drawn at random from all that are cut there.
    """
    running = float(curves.responses_q[point])
    if running <= 0:
        return np.zeros_like(curves.t_q)
    ended_q = 1 - np.minimum(curves.responses_q / running, 1.0)
    any_q: Floats = 1 - ended_q ** max(num_responses, 1.0)
    return any_q


def _tail_seconds(curves: Unfinished, engine: Engine, num_windows: int, point: int) -> Floats:
    """Expected seconds of all tails that begin at a grid point and stop at each length after it."""
    num_minibatches, num_responses = _share(curves, engine, num_windows, point)
    any_q = _any_running(curves, point, num_responses)
    prompts = num_responses * engine.prompt_tokens
    _, c1, c2 = engine.model.coefficients(num_responses, prompts)
    decode_q = curves.up_to((c1 + 2 * c2 * curves.t_q) * any_q)
    carried = num_responses * (curves.t_q[point] + engine.prompt_tokens)
    seconds_q = decode_q - decode_q[point] + engine.prefill_seconds * carried
    total_q: Floats = num_windows * num_minibatches * seconds_q
    return total_q


def _tail_round(
    curves: Unfinished, engine: Engine, num_windows: int, point: int, stop: int | None
) -> TailRound:
    end = len(curves.t_q) - 1 if stop is None else stop
    num_minibatches, num_responses = _share(curves, engine, num_windows, point)
    longest_q = curves.up_to(_any_running(curves, point, num_responses))
    tokens_q = curves.up_to(curves.responses_q)
    total = num_windows * num_minibatches
    return TailRound(
        carried_tokens=int(curves.t_q[point]),
        token_budget=None if stop is None else int(curves.t_q[stop]),
        num_responses=float(curves.responses_q[point]),
        num_groups=float(curves.groups_q[point]),
        num_minibatches=num_minibatches,
        tokens=float(tokens_q[end] - tokens_q[point]) / total,
        longest=float(longest_q[end] - longest_q[point]),
        seconds=float(_tail_seconds(curves, engine, num_windows, point)[end]) / total,
    )
