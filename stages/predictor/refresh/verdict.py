"""Should the predictor itself be fitted again?

Drift moves lengths and widens their spread, but leaves the predicted order, on which the schedule
rests. So the order is tested: Kendall's tau between predictions and the observed means of prompts
never blended before, beside the tau that the table promises: that of as many responses drawn from
its own distributions. Where the promise is missed by more than SHORTFALL, surely (the upper end of
the 90% bootstrap interval), the policy answers in another order than the predictor learned.

Arrays end in an axis legend: _p prompts, _g observed prompts, _s responses.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

from stages.predictor.backend import Floats
from stages.predictor.refresh.drift import ENOUGH_PROMPTS, LEVEL
from stages.predictor.refresh.evidence import Observed
from stages.predictor.refresh.variance import Variances

SHORTFALL = 0.05
MOST_PROMPTS = 2000  # that tau is taken of: it costs more than linearly
NUM_DRAWS = 200
NUM_PROMISES = 8  # drawn for the promised tau


@dataclass(frozen=True)
class Verdict:
    """How well observed prompts are ordered, and how well the table says they are."""

    tau: float
    interval: tuple[float, float]  # 90%, bootstrap by prompt
    promised_tau: float
    num_prompts: int

    @property
    def should_refit(self) -> bool:
        """Whether the order is surely worse than promised."""
        return self.interval[1] < self.promised_tau - SHORTFALL

    def line(self) -> str:
        """What to do, and why."""
        found = (
            f"predictions order {self.num_prompts} observed prompts with Kendall tau "
            f"{self.tau:.2f} (90% interval {self.interval[0]:.2f} to {self.interval[1]:.2f}), "
            f"where their own spread promised {self.promised_tau:.2f}"
        )
        if self.should_refit:
            return (
                f"{found}: fit the predictor again, with `asp train-predictor` on what was observed"
            )
        return f"{found}: the predictor need not be fitted again"


def judge(mu_p: Floats, variances: Variances, observed: Observed, seed: int) -> Verdict | None:
    """Compare the order of the predictions with that of the observed means.

    Args:
        mu_p: Predicted means, before the drift.
        variances: As the table says.
        observed: A group a prompt.
        seed: Of what is drawn.

    Returns:
        None where too few prompts were observed, or they cannot be ordered.
    """
    rng = np.random.default_rng(seed)
    observed = observed.subset(variances.is_fresh_p[observed.prompt_s])
    seen, group_s = np.unique(observed.prompt_s, return_inverse=True)
    if len(seen) < ENOUGH_PROMPTS:
        return None
    count_g = np.bincount(group_s)
    mean_g = np.bincount(group_s, observed.log_tokens_s) / count_g
    if len(seen) > MOST_PROMPTS:
        kept = np.sort(rng.permutation(len(seen))[:MOST_PROMPTS])
        seen, count_g, mean_g = seen[kept], count_g[kept], mean_g[kept]
    mu_g = mu_p[seen]
    if np.ptp(mu_g) == 0 or np.ptp(mean_g) == 0:
        return None
    sigma_g = np.sqrt(variances.shared_p[seen] + variances.chance_p[seen] / count_g)
    promises = [_tau(mu_g, rng.normal(mu_g, sigma_g)) for _ in range(NUM_PROMISES)]
    draws = (rng.integers(0, len(seen), len(seen)) for _ in range(NUM_DRAWS))
    low, high = np.quantile(
        [_tau(mu_g[draw], mean_g[draw]) for draw in draws], [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    )
    return Verdict(
        _tau(mu_g, mean_g), (float(low), float(high)), float(np.mean(promises)), len(seen)
    )


def _tau(first_g: Floats, second_g: Floats) -> float:
    return float(np.nan_to_num(kendalltau(first_g, second_g).statistic))
