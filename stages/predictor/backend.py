"""What does a backend promise, and what does it learn from?

A backend turns Observations (what the target model answered) into a predictor and into held-out
predictions, and its predictor turns texts into a Prediction: `embedded.py`, and `transformer/`.

Arrays end in an axis legend: _p prompts, _s samples (responses) of all prompts in a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stages.lengths.distribution import LengthDistribution

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ORDER_LEVEL = 0.6  # of the quantile that orders prompts


@dataclass(frozen=True)
class Observations:
    """Responses of one model to prompts that each stand once."""

    texts: list[str]  # canonical, a prompt each
    prompt_s: Ints  # index of the sample's prompt; samples of a prompt in order of sample_index
    log_tokens_s: Floats  # log of the length, of 1 token where it is 0
    is_censored_s: Bools  # the response would have been at least this long
    domains: tuple[str | None, ...] | None = None  # kind of task of each prompt, where known

    @property
    def weight_s(self) -> Floats:
        """1 / samples of the prompt: each prompt counts once, however often it was asked."""
        return 1.0 / np.bincount(self.prompt_s, minlength=len(self.texts))[self.prompt_s]

    def subset(self, is_kept_p: Bools) -> "Observations":
        """The observations of some of the prompts, renumbered."""
        is_kept_s = is_kept_p[self.prompt_s]
        renumbered_p = np.cumsum(is_kept_p) - 1
        return Observations(
            list(compress(self.texts, is_kept_p)),
            renumbered_p[self.prompt_s[is_kept_s]],
            self.log_tokens_s[is_kept_s],
            self.is_censored_s[is_kept_s],
            None if self.domains is None else tuple(compress(self.domains, is_kept_p)),
        )


class Prediction(NamedTuple):
    """The length distribution of each prompt's responses, but for the cap."""

    mu_p: Floats  # median of the log length
    sigma_p: Floats  # its scale: prediction error and chance between samples
    sample_sigma_p: Floats  # of that, chance between samples of a prompt; NaN: not known
    nu_below_p: Floats  # degrees of freedom below the median; inf: normal
    nu_above_p: Floats  # above it

    def with_cap(self, cap: ArrayLike) -> LengthDistribution:
        """The distributions under a cap [tokens]."""
        return LengthDistribution.of(self.mu_p, self.sigma_p, cap, *self[2:])

    def order(self) -> Floats:
        """What to order prompts by: a quantile of their log lengths, not capped.

        Expected lengths are right in total, but hang on a far tail of which little is known of
        any one prompt.
        """
        return self.with_cap(np.inf).log_quantile(ORDER_LEVEL)


class HeldOut(NamedTuple):
    """A prediction for each prompt held out, made by a model that was not fitted on it."""

    prediction: Prediction  # NaN where the prompt was not held out
    fold_p: Ints  # -1 where it was not: tuning a language model holds out one fold only


class Predictor(Protocol):
    """A fitted backend."""

    def predict(
        self, texts: Sequence[str], domains: Sequence[str | None] | None = None
    ) -> Prediction:
        """Predict the responses' lengths, a prompt each, in the order of the texts."""
        ...


@dataclass(frozen=True)
class TransformerOptions:
    """How the transformer backend uses its base model."""

    base_model: str = "Qwen/Qwen2.5-1.5B"  # a directory, or a name of the model hub
    max_prompt_tokens: int = 1024  # read of a prompt; a longer one loses its middle
    max_epochs: int = 5  # of tuning; 0: the frozen states alone
