"""How heavy must the upper tail be for the mean length to come out?

Likelihood sees the far tail of log lengths through few responses, while these few are a large part
of all tokens. So 1 / nu above the median is changed by the factor with which expected lengths are
right in total, the scale being calibrated anew for each factor tried.

Arrays end in an axis legend: _p prompts, _f factors tried.
"""

from dataclasses import dataclass, replace

import numpy as np

from stages.lengths.distribution import LengthDistribution
from stages.predictor.backend import Bools, Floats, Observations
from stages.predictor.calibration import calibrate

FACTORS_F = np.arange(5, 12) / 10  # between which the one that fits is interpolated


@dataclass(frozen=True)
class TailCurve:
    """The expected length of each prompt for each factor, beside the observed mean."""

    expected_fp: Floats  # tokens
    observed_p: Floats  # tokens

    @classmethod
    def trace(cls, lengths: LengthDistribution, observations: Observations) -> "TailCurve":
        """Compute it; the cap and the share of chance in `lengths` play no part."""
        tokens_s = np.exp(observations.log_tokens_s)
        observed_p = np.bincount(
            observations.prompt_s, observations.weight_s * tokens_s, len(lengths)
        ).astype(np.float64)
        bounded = up_to_what_is_known(lengths, observations)
        expected_fp = np.empty((len(FACTORS_F), len(lengths)))
        for f, factor in enumerate(FACTORS_F):
            scale = calibrate(with_tail(lengths, factor), observations)
            scaled = replace(with_tail(bounded, factor), sigma_p=scale * lengths.sigma_p)
            expected_fp[f] = scaled.expected_tokens()
        return cls(expected_fp, observed_p)

    def factor(self, is_in_p: Bools) -> float:
        """The factor on 1 / nu above the median, told by some of the prompts."""
        expected_f = np.maximum.accumulate(self.expected_fp[:, is_in_p].sum(axis=1))
        return float(np.interp(self.observed_p[is_in_p].sum(), expected_f, FACTORS_F))


def with_tail(lengths: LengthDistribution, factor: float) -> LengthDistribution:
    """The distributions with 1 / nu above the median changed by a factor."""
    return replace(lengths, nu_above_p=np.maximum(lengths.nu_above_p / factor, 1.0))


def up_to_what_is_known(
    lengths: LengthDistribution, observations: Observations
) -> LengthDistribution:
    """The distributions capped where observation ends.

    A prompt whose response was cut is known up to its longest; the others up to that of all.
    """
    tokens_s = np.exp(observations.log_tokens_s)
    longest_p = np.zeros(len(lengths))
    np.maximum.at(longest_p, observations.prompt_s, tokens_s)
    is_cut_p = np.bincount(observations.prompt_s, observations.is_censored_s, len(lengths)) > 0
    return replace(lengths, cap_p=np.where(is_cut_p, longest_p, longest_p.max()))
