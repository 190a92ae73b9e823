"""What does a backend promise, and what does it learn from?

A backend turns Observations (what the target model answered) into a predictor and into held-out
predictions, and its predictor turns texts into a Prediction. `embedded.py` is one.

Arrays end in an axis legend: _p prompts, _s samples (responses) of all prompts in a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Observations:
    """Responses of one model to prompts that each stand once."""

    texts: list[str]  # canonical, a prompt each
    prompt_s: Ints  # index of the sample's prompt; samples of a prompt in order of sample_index
    log_tokens_s: Floats  # log of the length, of 1 token where it is 0
    is_censored_s: Bools  # the response would have been at least this long

    @property
    def weight_s(self) -> Floats:
        """1 / samples of the prompt: each prompt counts once, however often it was asked."""
        return 1.0 / np.bincount(self.prompt_s, minlength=len(self.texts))[self.prompt_s]

    def subset(self, is_kept_p: Bools) -> "Observations":
        """The observations of some of the prompts, renumbered."""
        is_kept_s = is_kept_p[self.prompt_s]
        renumbered_p = np.cumsum(is_kept_p) - 1
        return Observations(
            [text for text, is_kept in zip(self.texts, is_kept_p, strict=True) if is_kept],
            renumbered_p[self.prompt_s[is_kept_s]],
            self.log_tokens_s[is_kept_s],
            self.is_censored_s[is_kept_s],
        )


class Prediction(NamedTuple):
    """The length of a response is min(exp(X), cap) tokens, X normal."""

    mu_p: Floats  # mean of X
    sigma_p: Floats  # deviation of X: prediction error and chance between samples
    sample_sigma_p: Floats  # of that, chance between samples of a prompt; NaN: not known


class HeldOut(NamedTuple):
    """A prediction for each prompt, made by a model that was not fitted on it."""

    prediction: Prediction
    fold_p: Ints


class Predictor(Protocol):
    """A fitted backend."""

    def predict(self, texts: Sequence[str]) -> Prediction:
        """Predict the responses' lengths, a prompt each, in the order of the texts."""
        ...
