"""How much of a prompt's spread is chance between its samples?

The more of it, the longer the longest of several samples is expected to be beside their mean. The
share with which the longest responses are in total as much longer than the means as expected is the
one that matters here; errors that the samples of a prompt share cancel. (Likelihood
under the same dependence, which the many ordinary prompts decide, makes the longest responses too
long on real rollouts: prompts that run long once do so again.)

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row, _g shares tried.
"""

from dataclasses import dataclass, replace

import numpy as np

from stages.lengths.distribution import LengthDistribution
from stages.predictor.backend import Bools, Floats, Observations
from stages.predictor.tail import up_to_what_is_known

SHARES_G = np.arange(1, 11) / 10  # between which the one that fits is interpolated


@dataclass(frozen=True)
class ChanceCurve:
    """The longest response of each prompt that was asked more than once, for each share."""

    is_repeated_p: Bools
    expected_gp: Floats  # tokens, longest; of repeated prompts, 0 for others, as below
    expected_mean_p: Floats  # tokens
    observed_p: Floats  # tokens, longest
    observed_mean_p: Floats  # tokens

    @classmethod
    def trace(cls, lengths: LengthDistribution, observations: Observations) -> "ChanceCurve":
        """Compute it; the cap and the share of chance in `lengths` play no part."""
        tokens_s = np.exp(observations.log_tokens_s)
        samples_p = np.bincount(observations.prompt_s, minlength=len(lengths))
        mean_p = np.bincount(observations.prompt_s, tokens_s, len(lengths)) / samples_p
        longest_p = np.zeros(len(lengths))
        np.maximum.at(longest_p, observations.prompt_s, tokens_s)
        lengths = up_to_what_is_known(lengths, observations)
        expected_gp = np.zeros((len(SHARES_G), len(lengths)))
        for n in np.unique(samples_p[samples_p > 1]):
            rows = np.flatnonzero(samples_p == n)
            for g, share in enumerate(SHARES_G):
                part = lengths[rows]
                part = replace(part, sample_sigma_p=share * part.sigma_p)
                expected_gp[g, rows] = part.expected_longest(int(n))
        is_repeated_p = samples_p > 1
        known = (lengths.expected_tokens(), longest_p, mean_p)
        return cls(is_repeated_p, expected_gp, *(np.where(is_repeated_p, v, 0.0) for v in known))

    def share(self, is_in_p: Bools) -> float | None:
        """sample_sigma / sigma, told by some of the prompts; None where none is repeated."""
        if not self.is_repeated_p[is_in_p].any():
            return None
        expected_g = self.expected_gp[:, is_in_p].sum(axis=1) / self.expected_mean_p[is_in_p].sum()
        observed = self.observed_p[is_in_p].sum() / self.observed_mean_p[is_in_p].sum()
        return float(np.interp(observed, np.maximum.accumulate(expected_g), SHARES_G))
