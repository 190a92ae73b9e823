"""How long are responses, when nothing is made of the prompt?

The profile's own distribution, for all prompts alike: what to say where a predictor has not shown
that it knows more. A constant prediction, with the spread that responses have about it.

Arrays end in an axis legend: _p prompts.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stages.predictor.backend import Observations, Prediction
from stages.predictor.spread import Spread, fit_spread


@dataclass(frozen=True)
class Marginal:
    """One distribution for all prompts."""

    location: float  # log tokens
    spread: Spread

    def predict(
        self, texts: Sequence[str], domains: Sequence[str | None] | None = None
    ) -> Prediction:
        """The same for every prompt."""
        return self.spread.apply(np.full(len(texts), self.location), np.zeros(len(texts)))

    def to_dict(self) -> dict[str, Any]:
        """As stored."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Marginal":
        """From what `to_dict` made."""
        return cls(float(stored["location"]), Spread.from_dict(stored["spread"]))


def fit_marginal(observations: Observations) -> Marginal:
    """Fit to all responses; cut ones are censored, and few prompts give a wide spread."""
    num_prompts = len(observations.texts)
    location = float(np.average(observations.log_tokens_s, weights=observations.weight_s))
    constant_p = np.full(num_prompts, location)
    spread = fit_spread(constant_p, np.zeros(num_prompts), observations).spread
    return Marginal(location, spread)
