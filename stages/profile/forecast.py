"""What will a profile cost, told from its first responses?

A few responses say little of a long tail, so the range is of two kinds. Its low end is the 5%
quantile of a Bayesian bootstrap (Rubin 1981) of the lengths seen: no tail but theirs. Its high end
is the 95% quantile of one in which a further response was seen, at the cap: what may lie in a tail
that has not shown. benchmarks/profile_forecast.py tells how often true costs lie outside.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.profile.engine import Answer, Request
from stages.tables.errors import log
from stages.tables.progress import duration

NUM_DRAWS = 2000
LOW, HIGH = 0.05, 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """A quantity that is not known yet."""

    expected: float
    low: float
    high: float


def total_tokens(lengths: Sequence[int], cap: int, samples_p: Sequence[int], seed: int) -> Range:
    """Response tokens of a profile.

    Args:
        lengths: Of first responses, of a prompt each; one or more [tokens].
        cap: Longest response allowed [tokens].
        samples_p: Responses of each prompt that is asked; those of one are taken to be alike.
        seed: Of the draws.
    """
    rng = np.random.default_rng(seed)
    seen = np.asarray(lengths, dtype=np.float64)
    num_responses, spread = sum(samples_p), float(np.linalg.norm(samples_p))
    low = _draws(seen, num_responses, spread, rng)
    high = _draws(np.append(seen, cap), num_responses, spread, rng)
    most = float(num_responses) * cap
    return Range(
        expected=num_responses * float(seen.mean()),
        low=max(float(np.quantile(low, LOW)), 0.0),
        high=min(float(np.quantile(high, HIGH)), most),
    )


def _draws(seen: Floats, num_responses: int, spread: float, rng: np.random.Generator) -> Floats:
    """Totals under weights of what was seen that might as well be the true ones."""
    weight_ds = rng.dirichlet(np.ones(len(seen)), NUM_DRAWS)  # d draws, s responses seen
    mean_d = weight_ds @ seen
    variance_d = np.maximum(weight_ds @ seen**2 - mean_d**2, 0)
    chance_d = rng.standard_normal(NUM_DRAWS) * spread * np.sqrt(variance_d)
    return num_responses * mean_d + chance_d


def in_words(
    tokens: Range, num_responses: int, num_seen: int, tokens_per_s: float, max_tokens: int | None
) -> str:
    """The forecast for the user: tokens, where a budget ends it, time."""
    words = (
        f"told from the first {num_seen} responses: {num_responses:,} responses take "
        f"{_numbers(tokens)} tokens"
    )
    if max_tokens is not None and tokens.high > max_tokens:
        least, most = (
            max_tokens * num_responses / max(end, 1.0) for end in (tokens.high, tokens.low)
        )
        words += (
            f"; --max-profile-tokens {max_tokens:,} allows {least:,.0f} to "
            f"{min(most, num_responses):,.0f} of them"
        )
        tokens = Range(
            *(min(end, max_tokens) for end in (tokens.expected, tokens.low, tokens.high))
        )
    if tokens_per_s > 0:
        time_s = [end / tokens_per_s for end in (tokens.expected, tokens.low, tokens.high)]
        expected, low, high = map(duration, time_s)
        words += f"; at {tokens_per_s:,.0f} tokens/s {expected} ({low} to {high})"
    return words


def _numbers(value: Range) -> str:
    return f"{value.expected:,.0f} ({value.low:,.0f} to {value.high:,.0f})"


class Outlook:
    """Says what a profile will cost, once, when its first responses are there.

    Those that were asked first, not those that came first: the first to come are short.
    """

    def __init__(
        self, first: Iterable[Request], samples_p: Sequence[int], cap: int, seed: int
    ) -> None:
        self._wanted = {request.key for request in first}
        self._samples_p = samples_p
        self._cap = cap
        self._seed = seed
        self._lengths: list[int] = []

    def look(self, request: Request, answer: Answer | None) -> None:
        """Take in a response; None: there will be none."""
        if request.key in self._wanted:
            self._wanted.remove(request.key)
            if answer is not None:
                self._lengths.append(answer.response_tokens)

    def tell(self, tokens_per_s: float, max_tokens: int | None, is_over: bool = False) -> None:
        """Say it, if it is time (all have come, or no more will) and there is more to come."""
        if (self._wanted and not is_over) or not self._lengths:
            return
        num_responses, num_seen = sum(self._samples_p), len(self._lengths)
        if num_responses > num_seen:
            # Sorted, so that it does not matter which came first.
            lengths = sorted(self._lengths)
            tokens = total_tokens(lengths, self._cap, self._samples_p, self._seed)
            log.info(in_words(tokens, num_responses, num_seen, tokens_per_s, max_tokens))
        self._lengths.clear()
