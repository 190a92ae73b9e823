"""How long will the responses be, from the text features and a language model together?

mu is a mean of two: the embedded predictor, and what a base model reads of the prompt, either by a
ridge on its frozen states or by the model tuned for it. How much the reading counts is learned from
held-out predictions, and so is the spread, from a mean of both spreads weighted alike.

Arrays end in an axis legend: _p prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stages.predictor.backend import Floats, Prediction
from stages.predictor.embedded import EmbeddedPredictor
from stages.predictor.spread import Spread
from stages.predictor.transformer.base import Base
from stages.predictor.transformer.encode import encode
from stages.predictor.transformer.frozen import Ridge
from stages.predictor.transformer.journal import Journal
from stages.predictor.transformer.memory import Memory
from stages.predictor.transformer.model import LengthModel
from stages.predictor.transformer.states import PASS_TOKENS, pooled_states
from stages.predictor.transformer.team import Alone
from stages.predictor.transformer.tune import read


class Reading(NamedTuple):
    """What a base model makes of each prompt, in log tokens."""

    mu_p: Floats
    sigma_p: Floats

    def blend(self, embedded: Prediction, share: float) -> "Reading":
        """The mean with the embedded predictor's, in which this one counts `share`."""
        return Reading(
            (1 - share) * embedded.mu_p + share * self.mu_p,
            (1 - share) * embedded.sigma_p + share * self.sigma_p,
        )


@dataclass(frozen=True)
class FrozenReader:
    """A ridge on the states of the base model as it was."""

    base: Base
    ridge: Ridge
    sigma: float  # log tokens, of one response

    def read(self, texts: Sequence[str], max_prompt_tokens: int) -> Reading:
        """Read the prompts, in their order."""
        prompts = encode(self.base, texts, max_prompt_tokens)
        mu_p = self.ridge.predict(pooled_states(self.base, prompts, Journal(None), Alone()))
        return Reading(mu_p, np.full(len(mu_p), self.sigma))


@dataclass(frozen=True)
class TunedReader:
    """The base model tuned to tell lengths; its weights are no longer the base's."""

    base: Base
    model: LengthModel

    def read(self, texts: Sequence[str], max_prompt_tokens: int) -> Reading:
        """Read the prompts, in their order."""
        prompts = encode(self.base, texts, max_prompt_tokens)
        memory = Memory(PASS_TOKENS[self.base.device.type])
        return Reading(*read(self.model, prompts, memory, Alone()))


Reader = FrozenReader | TunedReader


@dataclass(frozen=True)
class TransformerPredictor:
    """A fitted predictor."""

    embedded: EmbeddedPredictor
    reader: Reader
    base_digest: str  # of the base model as it was before any tuning
    max_prompt_tokens: int
    share: float  # of the reader in mu; the rest is the embedded predictor's
    spread: Spread

    def predict(
        self, texts: Sequence[str], domains: Sequence[str | None] | None = None
    ) -> Prediction:
        """Predict the responses' lengths, a prompt each, in the order of the texts."""
        embedded = self.embedded.predict(texts, domains)
        if self.share == 0:
            reading = Reading(embedded.mu_p, embedded.sigma_p)
        else:
            own = self.reader.read(texts, self.max_prompt_tokens)
            reading = own.blend(embedded, self.share)
        return self.spread.apply(*reading, domains)
