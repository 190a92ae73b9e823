"""Where would an observed length lie if log lengths were normal?

The blend takes log lengths for normal. A table may give them heavier tails, Student's t with nu
degrees of freedom on either side of the median. A response at some quantile of that tail then
counts as the normal length at the same quantile, so that an outlier the table reckons with moves
its prompt no more than it should.

Arrays end in an axis legend: _p prompts, _s responses.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import ndtri, stdtr

from stages.predictor.backend import Floats
from stages.predictor.refresh.evidence import Observed
from stages.predictor.refresh.variance import Variances


@dataclass(frozen=True)
class Tails:
    """Degrees of freedom of each prompt's log length; infinite: normal."""

    below_p: Floats
    above_p: Floats

    @classmethod
    def of(cls, lengths: pl.DataFrame) -> "Tails":
        """As a lengths table says; normal where it does not."""
        below_p, above_p = (
            lengths[name].cast(pl.Float64).fill_null(np.inf).to_numpy()
            if name in lengths.columns
            else np.full(len(lengths), np.inf)
            for name in ("nu_below", "nu_above")
        )
        return cls(below_p, above_p)

    def normal_scores(self, rest: Observed, variances: Variances) -> Observed:
        """Distances from the median as those of a normal with these variances."""
        sigma_s = np.sqrt(variances.shared_p + variances.chance_p)[rest.prompt_s]
        y_s = rest.log_tokens_s / sigma_s
        nu_s = np.where(y_s < 0, self.below_p[rest.prompt_s], self.above_p[rest.prompt_s])
        is_heavy_s = np.isfinite(nu_s)
        z_s = y_s.copy()
        beyond_s = stdtr(nu_s[is_heavy_s], -np.abs(y_s[is_heavy_s]))
        z_s[is_heavy_s] = -np.sign(y_s[is_heavy_s]) * ndtri(beyond_s)
        return rest.shifted(rest.log_tokens_s - sigma_s * z_s)
