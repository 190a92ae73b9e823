"""What would a predictor score that knew each prompt's distribution perfectly?

A label of few samples is noisy, so no predictor reaches 1: a score says little without its ceiling.
Prompts and samples are drawn from the components of variance (`components.py`), as many as were
judged and under the same caps; a forecast by what is best for each measure is made of some of the
draws, and scored on others. Best are: the expected place among all for an order, the chance to be
among the longest for their recall, the mean log for log R2, the median for the absolute error.

Arrays end in an axis legend: _p prompts, _s samples, _d draws.
"""

from dataclasses import dataclass

import numpy as np

from stages.predictor.backend import Floats
from stages.predictor.evaluation.components import Components
from stages.predictor.evaluation.labels import Samples, make_labels
from stages.predictor.evaluation.measures import (
    RECALLED,
    Forecast,
    Label,
    Measures,
    measure,
    recall,
    tau,
)

MAX_PROMPTS = 2_000  # drawn at once
PROMPTS_IN_ALL = 6_000  # over all rounds, so that chance in the ceiling itself is small
MIN_ROUNDS, MAX_ROUNDS = 3, 20
LEARNED, JUDGED = 100, 4  # draws that the forecast is made of, and that it is scored on
POOLED = 10  # draws of all prompts that one is placed among
CEILING_SEED = 0


@dataclass(frozen=True)
class Ceilings:
    """Estimated best scores, and how well the model behind them agrees with what was observed."""

    by_label: dict[str, Measures]
    between: float  # log tokens: deviation of prompts' locations
    within: float  # log tokens: scale of samples about them
    nu_below: float | None  # degrees of freedom of samples below their location; None: normal
    nu_above: float | None  # above it
    num_repeated: int  # prompts with two samples or more
    observed_agreement: float | None  # tau between the first two samples of a prompt
    modelled_agreement: float | None  # the same, of drawn prompts


def estimate_ceilings(components: Components, samples: Samples, cap_p: Floats) -> Ceilings:
    """Simulate; the seed is fixed.

    Args:
        components: What prompts and samples are drawn from.
        samples: What was judged; its numbers of samples a prompt count.
        cap_p: Their caps in tokens.
    """
    rng = np.random.default_rng(CEILING_SEED)
    num_prompts = min(len(cap_p), MAX_PROMPTS)
    found: dict[str, list[Measures]] = {}
    agreements = []
    for _ in range(min(max(PROMPTS_IN_ALL // num_prompts, MIN_ROUNDS), MAX_ROUNDS)):
        chosen = rng.permutation(len(cap_p))[:num_prompts]
        drawn = components.draw(samples.samples_p[chosen], cap_p[chosen], LEARNED + JUDGED, rng)
        for name, label in make_labels(drawn).items():
            learned, judged = _rows(label, slice(JUDGED, None)), _rows(label, slice(JUDGED))
            found.setdefault(name, []).extend(_score_perfect(learned, judged))
        agreements.append(_agreement(drawn))
    by_label = {
        name: Measures(*map(_mean, zip(*rows, strict=True))) for name, rows in found.items()
    }
    nu_below, nu_above = (None if np.isinf(nu) else nu for nu in components.tails)
    return Ceilings(
        by_label, components.between, components.within, nu_below, nu_above,
        components.num_repeated, _agreement(samples), _mean(agreements),
    )  # fmt: skip


def _score_perfect(learned: Label, judged: Label) -> list[Measures]:
    """Scores of the best forecasts that the learned draws allow, a judged draw each."""
    sorted_tokens = np.sort(learned.tokens_p[:POOLED], axis=None)
    shorter_dp = np.searchsorted(sorted_tokens, learned.tokens_p, side="left")
    not_longer_dp = np.searchsorted(sorted_tokens, learned.tokens_p, side="right")
    place_p = (shorter_dp + not_longer_dp).mean(axis=0) / (2 * len(sorted_tokens))  # 0 to 1
    perfect = Forecast(place_p, np.median(learned.tokens_p, axis=0), learned.log_p.mean(axis=0))
    is_among_longest = {
        name: learned.tokens_p >= np.quantile(sorted_tokens, 1 - share)
        for name, share in RECALLED.items()
    }
    found = []
    for draw in range(JUDGED):
        label = _rows(judged, draw)
        recalls = {
            # Equal chances are told apart by the place, which is below 1 draw.
            name: recall(is_in_dp.sum(axis=0) + place_p, label.tokens_p, RECALLED[name])
            for name, is_in_dp in is_among_longest.items()
        }
        found.append(measure(perfect, label)._replace(**recalls))
    return found


def _rows(label: Label, rows: slice | int) -> Label:
    return Label(label.tokens_p[rows], label.log_p[rows], label.is_cut_p[rows])


def _agreement(samples: Samples) -> float | None:
    """tau between two samples of a prompt, of prompts that have them; of the first draw."""
    first = samples.starts_p[samples.samples_p > 1]
    tokens_s = np.atleast_2d(samples.tokens_s)[0]
    return tau(tokens_s[first], tokens_s[first + 1])


def _mean(values: list[float | None] | tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
