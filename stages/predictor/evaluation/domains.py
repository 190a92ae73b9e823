"""How good is the predictor on a kind of task that it has not seen?

Each domain is predicted by a fit on the others. With more than MAX_FITS domains several are left
out at once, which shows each of them still less.

Arrays end in an axis legend: _p prompts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stages.predictor.backend import HeldOut, Observations, Prediction, Predictor
from stages.predictor.evaluation.labels import judge
from stages.predictor.evaluation.measures import measure
from stages.predictor.observations import Evidence

MAX_FITS = 10
Fit = Callable[[Observations], Predictor]


@dataclass(frozen=True)
class DomainScore:
    """Scores of one domain, left out."""

    domain: str
    num_prompts: int
    tau: float | None  # against the mean; of an order within the domain
    recall_20: float | None
    bias: float  # sum of expected over sum of observed means, less 1


def leave_domains_out(evidence: Evidence, fit: Fit, seed: int) -> list[DomainScore]:
    """Scores by domain, and of all prompts together under the name "all".

    Args:
        evidence: Responses; of two domains or more. Prompts without a domain are one more.
        fit: Of a predictor.
        seed: Of dealing domains into fits.
    """
    observations = evidence.observations
    assert observations.domains is not None
    names, domain_p = np.unique([d or "" for d in observations.domains], return_inverse=True)
    lot = np.random.default_rng(seed).permutation(len(names))
    fold_p = (lot % min(MAX_FITS, len(names)))[domain_p]
    prediction = Prediction(*(np.empty(len(domain_p)) for _ in Prediction._fields))
    for fold in np.unique(fold_p):
        is_out_p = fold_p == fold
        predictor = fit(observations.subset(~is_out_p))
        told = predictor.predict(observations.subset(is_out_p).texts)
        for whole_p, part_p in zip(prediction, told, strict=True):
            whole_p[is_out_p] = part_p
    found = []
    for index, name in [(-1, "all"), *enumerate(names)]:
        is_in_p = domain_p == index if index >= 0 else np.ones(len(domain_p), dtype=bool)
        judged = judge(evidence, HeldOut(prediction, np.where(is_in_p, fold_p, -1)))
        if not len(judged.table):
            continue
        label, forecast = judged.labels["mean"], judged.forecasts["mean"]
        own = measure(forecast, label)
        assert forecast.tokens_p is not None
        bias = float(forecast.tokens_p.sum() / max(label.tokens_p.sum(), 1.0) - 1)
        size = len(judged.table)
        found.append(DomainScore(name or "(none)", size, own.tau, own.recall_20, bias))
    return found


def lines(scores: list[DomainScore]) -> list[str]:
    """A line a domain."""
    return [
        f"{'left-out domain, against the mean':40}{'prompts':>10}{'Kendall tau-b':>16}"
        f"{'recall 20%':>12}{'expected':>10}",
        *(
            f"  {score.domain[:38]:38}{score.num_prompts:>10,}{_number(score.tau):>16}"
            f"{_number(score.recall_20):>12}{score.bias:>+10.1%}"
            for score in scores
        ),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
