"""How good are held-out predictions, beside plain rules and the best that is possible?

Scores against each label, intervals by bootstrap over prompts, coverage and bias.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from stages.predictor.calibration import coverage
from stages.predictor.evaluation.baselines import forecast_baselines
from stages.predictor.evaluation.ceilings import Ceilings, estimate_ceilings
from stages.predictor.evaluation.components import fit_components
from stages.predictor.evaluation.labels import LABELS, Judged
from stages.predictor.evaluation.measures import (
    RECALLED,
    Forecast,
    Label,
    Measures,
    measure,
    recall,
    tau,
)

RESAMPLES = 200  # of the prompts
INTERVAL = (0.05, 0.95)  # quantiles

ByLabel = dict[str, Measures]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Scores:
    """Held-out scores of a predictor, and what they stand beside."""

    num_prompts: int
    num_responses: int
    predictor: ByLabel
    intervals: dict[str, dict[str, Interval | None]]  # by label, of tau and recall_20; 90%
    baselines: dict[str, ByLabel]
    ceilings: Ceilings | None  # None: too few prompts have two samples
    lead: Interval | None  # 90%: tau of the means less that of the prompts' lengths
    coverage_80: float  # share of responses within the central 80% interval
    coverage_90: float
    mean_bias: float  # sum of expected over sum of observed means, less 1
    longest_bias: float  # sum of expected over sum of observed longest, less 1

    @property
    def beats_prompt_length(self) -> bool:
        """Whether it orders the means better than the prompts' lengths do, chance aside."""
        return self.lead is not None and self.lead[0] > 0

    def to_dict(self) -> dict[str, Any]:
        """As stored."""
        return {
            **asdict(self),
            "predictor": _by_name(self.predictor),
            "baselines": {name: _by_name(scores) for name, scores in self.baselines.items()},
            "ceilings": self.ceilings
            and {**asdict(self.ceilings), "by_label": _by_name(self.ceilings.by_label)},
            "beats_prompt_length": self.beats_prompt_length,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Scores":
        """From what `to_dict` made and JSON kept."""
        values = {name: value for name, value in stored.items() if name != "beats_prompt_length"}
        ceilings = stored["ceilings"]
        if ceilings is not None:
            ceilings = Ceilings(**ceilings | {"by_label": _by_label(ceilings["by_label"])})
        return cls(
            **values
            | {
                "predictor": _by_label(stored["predictor"]),
                "baselines": {name: _by_label(s) for name, s in stored["baselines"].items()},
                "ceilings": ceilings,
            }
        )

    def summary(self) -> dict[str, Any]:
        """The figures that later files carry along."""
        best = self.ceilings.by_label["mean"] if self.ceilings else None
        return {
            "num_prompts": self.num_prompts,
            "tau": self.predictor["mean"].tau,
            "recall_20": self.predictor["mean"].recall_20,
            "ceiling_tau": best and best.tau,
            "coverage_90": self.coverage_90,
            "beats_prompt_length": self.beats_prompt_length,
        }


def _by_name(by_label: ByLabel) -> dict[str, dict[str, float | None]]:
    return {name: measures._asdict() for name, measures in by_label.items()}


def _by_label(stored: dict[str, dict[str, Any]]) -> ByLabel:
    return {name: Measures(**measures) for name, measures in stored.items()}


def score(judged: Judged, count_pg: sparse.csr_array, seed: int) -> Scores:
    """Score held-out predictions.

    Args:
        judged: The predictions beside what was observed.
        count_pg: Word n-grams counted in each prompt.
        seed: Of resampling and of the baselines.
    """
    baselines = {
        name: _measure_all(forecasts, judged.labels)
        for name, forecasts in forecast_baselines(judged, count_pg, seed).items()
    }
    cap_p = judged.table["cap"].to_numpy().astype(np.float64)
    components = fit_components(judged.samples, seed)
    observations = judged.observations
    lengths = judged.held_out.prediction.with_cap(np.inf)[observations.prompt_s]
    z_s = lengths.normal_score(observations.log_tokens_s)

    def covered(level: float) -> float:
        return coverage(z_s, observations.is_censored_s, observations.weight_s, level)

    def bias(label: str) -> float:
        predicted_p = judged.forecasts[label].tokens_p
        assert predicted_p is not None
        return float(predicted_p.sum() / max(judged.labels[label].tokens_p.sum(), 1.0) - 1)

    return Scores(
        num_prompts=len(judged.table),
        num_responses=len(judged.samples.tokens_s),
        predictor=_measure_all(judged.forecasts, judged.labels),
        intervals={name: _intervals(judged, name, seed) for name in LABELS},
        baselines=baselines,
        ceilings=estimate_ceilings(components, judged.samples, cap_p) if components else None,
        lead=_lead(judged, seed),
        coverage_80=covered(0.8),
        coverage_90=covered(0.9),
        mean_bias=bias("mean"),
        longest_bias=bias("longest"),
    )


def _measure_all(forecasts: dict[str, Forecast], labels: dict[str, Label]) -> ByLabel:
    return {name: measure(forecasts[name], label) for name, label in labels.items()}


def _intervals(judged: Judged, name: str, seed: int) -> dict[str, Interval | None]:
    order_p, tokens_p = judged.forecasts[name].order_p, judged.labels[name].tokens_p
    assert order_p is not None
    share, num_prompts = RECALLED["recall_20"], len(tokens_p)
    return {
        "tau": bootstrap(lambda rows: tau(order_p[rows], tokens_p[rows]), num_prompts, seed),
        "recall_20": bootstrap(
            lambda rows: recall(order_p[rows], tokens_p[rows], share), num_prompts, seed
        ),
    }


def _lead(judged: Judged, seed: int) -> Interval | None:
    order_p, tokens_p = judged.forecasts["mean"].order_p, judged.labels["mean"].tokens_p
    assert order_p is not None

    def lead(rows: np.ndarray) -> float | None:
        own = tau(order_p[rows], tokens_p[rows])
        by_length = tau(judged.size_p[rows], tokens_p[rows])
        return None if own is None else own - (by_length or 0.0)

    return bootstrap(lead, len(tokens_p), seed)


def bootstrap(
    statistic: Callable[[np.ndarray], float | None], num_prompts: int, seed: int
) -> Interval | None:
    """The 90% interval of a statistic of rows, over prompts drawn with replacement.

    None where the statistic is not defined for most draws.
    """
    rng = np.random.default_rng(seed)
    draws = (statistic(rng.integers(num_prompts, size=num_prompts)) for _ in range(RESAMPLES))
    values = [value for value in draws if value is not None]
    if len(values) < RESAMPLES / 2:
        return None
    low, high = np.quantile(values, INTERVAL)
    return float(low), float(high)
