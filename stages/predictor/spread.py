"""How is a response distributed, given a prediction of its mean log length?

The errors of held-out predictions follow a law (`law.py`), whose upper tail and scale are
calibrated on residuals that it was not fitted on (`tail.py`, `calibration.py`), and of which a
share is chance between samples of one prompt (`chance.py`). All are crossed over folds: what is
said of a held-out prompt rests on the other folds alone.

Arrays end in an axis legend: _p prompts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from stages.lengths.distribution import LengthDistribution
from stages.predictor.backend import Bools, Floats, Observations, Prediction
from stages.predictor.calibration import calibrate, calibrate_domains
from stages.predictor.chance import ChanceCurve
from stages.predictor.crossval import assign_folds
from stages.predictor.law import NORMAL, SIGMA_MAX, Law, fit_law
from stages.predictor.tail import TailCurve, with_tail

SIGMA_MIN = 0.01  # log tokens
WIDE_SIGMA = 1.0  # of a predictor that has seen nothing: lengths within a factor of 3.6, 8 in 10
ENOUGH_PROMPTS = 100  # with fewer, sigma is drawn towards WIDE_SIGMA
NUM_FOLDS = 5  # over which law and calibration are crossed


@dataclass(frozen=True)
class Spread:
    """The distribution of a response as a function of its predicted mean log length."""

    law: Law
    scale: float  # of the calibration, on sigma
    trust: float  # 0 to 1: share of the fitted variance, the rest being WIDE_SIGMA^2
    sample_share: float | None  # sample_sigma / sigma; None: no prompt was asked twice
    domain_scales: Mapping[str, float] = field(default_factory=dict)  # in place of `scale`

    def apply(
        self, mu_p: Floats, forest_spread_p: Floats, domains: Sequence[str | None] | None = None
    ) -> Prediction:
        """The distribution of each prompt's responses.

        Args:
            mu_p: Predicted mean log lengths.
            forest_spread_p: Spread of the log lengths among like prompts.
            domains: Of the prompts; None: not known.
        """
        scale_p = np.full(len(mu_p), self.scale)
        if domains is not None and self.domain_scales:
            scale_p = np.array([self.domain_scales.get(d or "", self.scale) for d in domains])
        fitted_p = scale_p * self.law.sigma(mu_p, forest_spread_p)
        sigma_p = np.sqrt(self.trust * fitted_p**2 + (1 - self.trust) * WIDE_SIGMA**2)
        sigma_p = np.clip(sigma_p, SIGMA_MIN, SIGMA_MAX)
        share = np.nan if self.sample_share is None else self.sample_share
        below, above = (
            self.trust * inverse
            for inverse in (self.law.inverse_nu_below, self.law.inverse_nu_above)
        )
        return Prediction(
            mu_p + self.trust * self.law.shift,
            sigma_p,
            share * sigma_p,
            np.full(len(mu_p), 1 / below if below > NORMAL else np.inf),
            np.full(len(mu_p), 1 / above if above > NORMAL else np.inf),
        )

    def to_dict(self) -> dict[str, Any]:
        """As stored."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Spread":
        """From what `to_dict` made."""
        return cls(**stored | {"law": Law(**stored["law"])})


class FittedSpread(NamedTuple):
    """A spread, and what it says of the prompts that it was fitted on."""

    spread: Spread
    held_out: Prediction  # of each prompt, by a spread that has not seen its fold


def constant_spread() -> Spread:
    """The spread where nothing could be held out."""
    law = Law(0.0, 0.0, 0.0, 0.0, NORMAL, NORMAL, centre=0.0, lowest=0.0, highest=0.0)
    return Spread(law, scale=1.0, trust=0.0, sample_share=None)


def fit_spread(mu_p: Floats, forest_spread_p: Floats, observations: Observations) -> FittedSpread:
    """Fit on held-out predictions of the prompts.

    Args:
        mu_p: Predicted mean log lengths.
        forest_spread_p: Spread of the log lengths among like prompts.
        observations: The responses to the prompts.
    """
    fold_p = assign_folds(observations.texts, NUM_FOLDS, seed=0)
    law = fit_law(mu_p, forest_spread_p, observations)
    law_of_fold = {
        fold: _fit_without(fold_p == fold, mu_p, forest_spread_p, observations, law)
        for fold in range(fold_p.max() + 1)
    }
    crossed = _distributions(law_of_fold, fold_p, mu_p, forest_spread_p)
    trust = min(1.0, len(mu_p) / ENOUGH_PROMPTS)
    everything = np.ones(len(mu_p), dtype=bool)
    tail = TailCurve.trace(crossed, observations)
    tailed = with_tail(crossed, tail.factor(everything))
    scale = calibrate(tailed, observations)
    chance = ChanceCurve.trace(replace(tailed, sigma_p=scale * tailed.sigma_p), observations)

    def finish(law: Law, is_in_p: Bools) -> Spread:
        """The law with what some of the prompts tell of its tail, its scale and of chance."""
        factor = tail.factor(is_in_p)
        part, seen = with_tail(crossed[is_in_p], factor), observations.subset(is_in_p)
        scale = calibrate(part, seen)
        scales = calibrate_domains(part, seen, scale)
        law = replace(law, inverse_nu_above=min(factor * law.inverse_nu_above, 1.0))
        return Spread(law, scale, trust, chance.share(is_in_p), scales)

    spread = finish(law, everything)
    domains = observations.domains
    held_out = spread.apply(mu_p, forest_spread_p, domains)
    for fold, its_law in law_of_fold.items():
        is_out_p = fold_p == fold
        if is_out_p.all():
            break
        its_domains = observations.subset(is_out_p).domains
        told = finish(its_law, ~is_out_p).apply(
            mu_p[is_out_p], forest_spread_p[is_out_p], its_domains
        )
        for whole_p, part_p in zip(held_out, told, strict=True):
            whole_p[is_out_p] = part_p
    return FittedSpread(spread, held_out)


def _fit_without(
    is_out_p: Bools, mu_p: Floats, forest_spread_p: Floats, observations: Observations, law: Law
) -> Law:
    """The law that the other prompts tell; the one of all where there are none."""
    if is_out_p.all():
        return law
    seen = observations.subset(~is_out_p)
    return fit_law(mu_p[~is_out_p], forest_spread_p[~is_out_p], seen, start=law)


def _distributions(
    law_of_fold: Mapping[int, Law], fold_p: np.ndarray, mu_p: Floats, forest_spread_p: Floats
) -> LengthDistribution:
    """What each prompt's fold's law says of it; not capped, since a cut response lies beyond."""

    def of_law(values: Mapping[int, float]) -> Floats:
        value_p: Floats = np.array([values[fold] for fold in range(len(values))])[fold_p]
        return value_p

    sigma_p = np.empty(len(mu_p))
    for fold, law in law_of_fold.items():
        rows = fold_p == fold
        sigma_p[rows] = law.sigma(mu_p[rows], forest_spread_p[rows])
    return LengthDistribution.of(
        mu_p + of_law({fold: law.shift for fold, law in law_of_fold.items()}),
        np.clip(sigma_p, SIGMA_MIN, SIGMA_MAX),
        np.inf,
        nu_below=1 / of_law({fold: law.inverse_nu_below for fold, law in law_of_fold.items()}),
        nu_above=1 / of_law({fold: law.inverse_nu_above for fold, law in law_of_fold.items()}),
    )
