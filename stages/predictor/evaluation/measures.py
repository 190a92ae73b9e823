"""How well does a forecast agree with a label of the prompts?

A label is a number a prompt that was observed: one sample's length, the mean, or the longest. Four
measures judge an order (two of them are recalls), one an order with censored labels, two the values
themselves. A measure is None where it says nothing: no order, or a label that is the same for all.

Arrays end in an axis legend: _p prompts.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import kendalltau, spearmanr

from stages.predictor.backend import Bools, Floats

RECALLED = {"recall_10": 0.1, "recall_20": 0.2}  # measure, and the share of the longest


@dataclass(frozen=True)
class Label:
    """What was observed of each prompt."""

    tokens_p: Floats
    log_p: Floats  # log tokens; of the mean label the mean of the samples' logs
    is_cut_p: Bools  # it would have been at least as long


class Forecast(NamedTuple):
    """What is said of one label of each prompt; None where nothing is."""

    order_p: Floats | None = None  # the larger, the longer
    tokens_p: Floats | None = None
    log_p: Floats | None = None  # log tokens


class Measures(NamedTuple):
    """Agreement of a forecast with a label."""

    tau: float | None  # Kendall's tau-b, -1 to 1
    spearman: float | None  # rank correlation, -1 to 1
    recall_10: float | None  # share of the longest tenth that is among the first tenth, 0 to 1
    recall_20: float | None  # the same of a fifth
    concordance: float | None  # pairs put in order, of those that censoring lets compare, 0 to 1
    log_r2: float | None  # share of the variance of log lengths that is told, up to 1
    mae: float | None  # mean absolute error [tokens]


NO_MEASURES = Measures(*(None,) * len(Measures._fields))


def measure(forecast: Forecast, label: Label) -> Measures:
    """Every measure of one forecast."""
    order_p, tokens_p = forecast.order_p, label.tokens_p
    found = NO_MEASURES
    if order_p is not None and _varies(order_p) and _varies(tokens_p):
        found = found._replace(
            tau=tau(order_p, tokens_p),
            spearman=float(spearmanr(order_p, tokens_p).statistic),
            concordance=concordance(order_p, tokens_p, label.is_cut_p),
            **{name: recall(order_p, tokens_p, share) for name, share in RECALLED.items()},
        )
    if forecast.log_p is not None and _varies(label.log_p):
        error = float(np.mean((label.log_p - forecast.log_p) ** 2))
        found = found._replace(log_r2=1 - error / float(np.var(label.log_p)))
    if forecast.tokens_p is not None:
        found = found._replace(mae=float(np.mean(np.abs(tokens_p - forecast.tokens_p))))
    return found


def tau(order_p: Floats, tokens_p: Floats) -> float | None:
    """Kendall's tau-b, which allows for ties; None where all are."""
    if not (_varies(order_p) and _varies(tokens_p)):
        return None
    return float(kendalltau(order_p, tokens_p).statistic)


def recall(order_p: Floats, tokens_p: Floats, share: float) -> float | None:
    """Share of the longest that stands among as many first; ties go to the earlier prompt."""
    if not (_varies(order_p) and _varies(tokens_p)):
        return None
    size = max(1, round(share * len(tokens_p)))
    first, longest = (set(np.argsort(-v, kind="stable")[:size]) for v in (order_p, tokens_p))
    return len(first & longest) / size


def concordance(order_p: Floats, tokens_p: Floats, is_cut_p: Bools) -> float | None:
    """Share of the comparable pairs that are in order, a tie in it counting half (Harrell 1982).

    A pair compares where the shorter label is whole. Counting goes by merging, not pair by pair.
    """
    # Of equal labels the cut ones are the longer.
    _, label_p = np.unique(2 * tokens_p + is_cut_p, return_inverse=True)
    below_p, above_p = _later(order_p, label_p)
    whole = ~is_cut_p
    in_order, out_of_order = above_p[whole].sum(), below_p[whole].sum()
    pairs = _longer(label_p)[whole].sum()
    return float(0.5 + (in_order - out_of_order) / (2 * pairs)) if pairs else None


def _longer(label_p: np.ndarray) -> np.ndarray:
    """How many labels are above each."""
    return len(label_p) - np.searchsorted(np.sort(label_p), label_p, side="right")


def _later(order_p: Floats, label_p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each prompt: how many with a longer label stand below it in the order, and above it."""
    _, place_p = np.unique(order_p, return_inverse=True)
    below_p, above_p = np.zeros(len(order_p), np.int64), np.zeros(len(order_p), np.int64)
    # Two labels differ first in one bit; by it the upper half of a block meets the lower.
    for bit in range(int(label_p.max()).bit_length()):
        block_p, is_upper_p = label_p >> (bit + 1), (label_p >> bit) & 1 == 1
        key_p = block_p * (place_p.max() + 1) + place_p
        upper = np.sort(key_p[is_upper_p])
        first_p = np.searchsorted(upper, block_p * (place_p.max() + 1), side="left")
        last_p = np.searchsorted(upper, (block_p + 1) * (place_p.max() + 1), side="left")
        lower = ~is_upper_p
        below_p[lower] += (np.searchsorted(upper, key_p, side="left") - first_p)[lower]
        above_p[lower] += (last_p - np.searchsorted(upper, key_p, side="right"))[lower]
    return below_p, above_p


def _varies(value_p: Floats) -> bool:
    return len(value_p) > 1 and float(np.ptp(value_p)) > 0
