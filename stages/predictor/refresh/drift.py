"""How have lengths moved since they were predicted: by what factor, and is the spread over prompts
wider or narrower?

    observed log length = mu + walk(version) + rest                      blended before
    ... = centre + scale (mu - centre) + offset + offset(domain) + walk(version) + rest     not yet

The walk is the policy's: 0 at the version of the table, and tied along the versions as a random
walk, so that a response of an old version tells of the present one only so far. Offsets and scale
are the prediction's: a prompt blended before has its own responses in its place. The rest is of
two kinds, error shared by a prompt's samples and chance between them, both with tails heavier than
a normal's; so each response pulls with Huber's bounded score (Huber 1964), a cut one with the
expectation of that score beyond its cut. A prompt weighs by the precision of its group's mean.

Everything is drawn towards no drift, the more so the more prompts an earlier refresh has learned
from; domains' offsets by a deviation that is estimated. Scale is 1 and domains are one with fewer
than ENOUGH_PROMPTS prompts. Interval: bootstrap by prompt, one Newton step a draw.

Arrays end in an axis legend: _p prompts, _s responses, _k coefficients (knots of the walk,
offset, domains, scale), _v knots, _d domains, _b bootstrap draws, _a what is asked of them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, hstack
from scipy.special import log_ndtr, ndtr

from stages.predictor.backend import Bools, Floats, Ints
from stages.predictor.refresh.evidence import Observed
from stages.predictor.refresh.variance import Variances

ENOUGH_PROMPTS = 30  # with fewer, only the offset is fitted
OFFSET_SIGMA = 0.5  # log tokens; before any data, drift is within a factor 1.9, 8 times in 10
SCALE_SIGMA = 0.25  # of the scale around 1, before any data
DOMAIN_SIGMA = 0.3  # log tokens, of the domains' offsets, a guess worth DOMAIN_GUESS domains
DOMAIN_GUESS = 2.0
BEND = 1.345  # deviations beyond which a response pulls no harder (Huber 1964: 95% efficient)
MOST_KNOTS = 256  # distinct offsets along the versions
DOMAIN_ROUNDS = 5  # in which their deviation settles within a few per cent
SMALLEST_VARIANCE = 1e-8  # of what does not move
MAX_ROUNDS = 200
TOLERANCE = 1e-6  # log tokens
NUM_DRAWS = 200  # of the bootstrap
LEVEL = 0.9  # of the interval


@dataclass(frozen=True)
class Drift:
    """How predicted log lengths become present ones, and how surely that is known."""

    centre: float  # log tokens; where offset and scale do not depend on each other
    offset: float  # log tokens, at the present version and the centre, mean of the prompts
    scale: float  # log tokens per predicted log token
    offset_interval: tuple[float, float]  # 90%
    scale_interval: tuple[float, float]
    knot_v: Ints  # versions, ascending, at which the walk is known; the last is the present
    walk_v: Floats  # log tokens, since the version of the table
    domain_offset_d: Floats  # log tokens, beside the mean; 0 where unobserved
    num_prompts: int
    is_full: bool  # scale and domains were fitted too

    def apply(self, mu_p: Floats, domain_p: Ints, is_fresh_p: Bools) -> Floats:
        """The present mean log length of prompts predicted at mu, before any blending."""
        moved_p = self.centre + self.scale * (mu_p - self.centre) + self.offset
        return np.where(
            is_fresh_p, moved_p + self.domain_offset_d[domain_p], mu_p + self.walk_v[-1]
        )

    def past(self, version_s: Ints) -> Floats:
        """By how much lengths of these versions differed from the present ones."""
        past_s: Floats = self.walk_v[_knot_of(version_s, self.knot_v)] - self.walk_v[-1]
        return past_s


def fit(
    mu_p: Floats,
    domain_p: Ints,
    variances: Variances,
    observed: Observed,
    table_version: int,
    step_variance: float,
    seed: int,
) -> Drift:
    """Fit the drift.

    Args:
        mu_p: Predicted means of all prompts of the table.
        domain_p: Their domains, 0 to D - 1.
        variances: What is expected of the rest, and which prompts were not blended before.
        observed: Responses that count.
        table_version: Policy version at which the table holds.
        step_variance: Of the walk, a version [log tokens squared].
        seed: Of the bootstrap.
    """
    seen, group_s = np.unique(observed.prompt_s, return_inverse=True)
    is_full = len(seen) >= ENOUGH_PROMPTS
    is_fresh_p = variances.is_fresh_p
    fresh = seen[is_fresh_p[seen]]
    centre = float(np.mean(mu_p[fresh if len(fresh) else seen]))
    knot_v = _knots(observed.version_s, table_version)
    beside_d = np.zeros(int(domain_p.max()) + 1)
    num_domains = len(beside_d) if is_full else 0
    is_fresh_s = is_fresh_p[observed.prompt_s].astype(np.float64)
    slope_s = is_fresh_s * (mu_p[observed.prompt_s] - centre) * is_full
    design = hstack(
        [
            _one_hot(_knot_of(observed.version_s, knot_v), len(knot_v), np.ones(len(group_s))),
            csr_array(is_fresh_s[:, None]),
            *([_one_hot(domain_p[observed.prompt_s], num_domains, is_fresh_s)] if is_full else []),
            csr_array(slope_s[:, None]),
        ],
        format="csr",
    )
    rest_s = observed.log_tokens_s - mu_p[observed.prompt_s]
    problem = _Problem(design, rest_s, observed.is_censored_s, *_weights(observed, variances))
    present, general = len(knot_v) - 1, len(knot_v)  # columns
    of_domains = slice(general + 1, general + 1 + num_domains)

    penalty_kk = _penalty(
        knot_v, table_version, step_variance, num_domains, _known(mu_p, variances)
    )
    domain_variance = DOMAIN_SIGMA**2
    coefficient_k = np.zeros(design.shape[1])
    for _ in range(DOMAIN_ROUNDS):
        penalty_kk[of_domains, of_domains] = np.eye(num_domains) / domain_variance
        coefficient_k, covariance_kk = problem.solve(penalty_kk, coefficient_k)
        square_d = coefficient_k[of_domains] ** 2 + np.diag(covariance_kk)[of_domains]
        domain_variance = float(
            (square_d.sum() + DOMAIN_GUESS * DOMAIN_SIGMA**2) / (num_domains + DOMAIN_GUESS)
        )

    # The offset is that of the mean prompt: the domains' are told beside their mean.
    count_d = np.bincount(domain_p[fresh], minlength=len(beside_d))[:num_domains]
    share_d = count_d / max(len(fresh), 1)
    asked_ka = np.zeros((design.shape[1], 2))
    asked_ka[present, 0] = asked_ka[-1, 1] = 1.0
    asked_ka[general, 0] = float(is_fresh_p.any())
    asked_ka[of_domains, 0] = share_d
    offset, stretch = coefficient_k @ asked_ka
    moved_ba = problem.bootstrap(coefficient_k, penalty_kk, asked_ka, group_s, seed)
    low, high = np.quantile(moved_ba, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    domain_d = coefficient_k[of_domains]
    beside_d[:num_domains] = np.where(share_d > 0, domain_d - share_d @ domain_d, 0.0)
    return Drift(
        centre=centre,
        offset=float(offset),
        scale=1.0 + float(stretch),
        offset_interval=(float(offset + low[0]), float(offset + high[0])),
        scale_interval=(float(1 + stretch + low[1]), float(1 + stretch + high[1])),
        knot_v=knot_v,
        walk_v=coefficient_k[: present + 1],
        domain_offset_d=beside_d,
        num_prompts=len(seen),
        is_full=is_full,
    )


def _knots(version_s: Ints, table_version: int) -> Ints:
    """Versions at which the walk is fitted, the table's and the newest among them."""
    versions = np.unique(version_s)
    kept = np.linspace(0, len(versions) - 1, min(len(versions), MOST_KNOTS)).astype(int)
    return np.union1d(versions[kept], table_version)


def _knot_of(version_s: Ints, knot_v: Ints) -> Ints:
    """The last knot that is not after the version."""
    return np.maximum(np.searchsorted(knot_v, version_s, side="right") - 1, 0)


def _one_hot(column_s: Ints, num_columns: int, value_s: Floats) -> csr_array:
    """Responses by columns: each response's value in its column."""
    row_s = np.arange(len(column_s))
    return csr_array((value_s, (row_s, column_s)), shape=(len(row_s), num_columns))


def _weights(observed: Observed, variances: Variances) -> tuple[Floats, Floats]:
    """Deviation of each response from its prediction, and its share of its group's precision."""
    count_p = np.bincount(observed.prompt_s, minlength=len(variances.shared_p))
    shared_s = variances.shared_p[observed.prompt_s]
    chance_s = variances.chance_p[observed.prompt_s]
    return np.sqrt(shared_s + chance_s), 1 / (count_p[observed.prompt_s] * shared_s + chance_s)


def _known(mu_p: Floats, variances: Variances) -> tuple[float, float]:
    """Precision that an earlier refresh has left of offset and scale: that of its prompts."""
    is_fresh_p = variances.is_fresh_p
    if is_fresh_p.all() or not is_fresh_p.any():
        return 0.0, 0.0
    variance = np.mean(variances.shared_p[is_fresh_p] + variances.chance_p[is_fresh_p])
    precision = float((~is_fresh_p).sum() / variance)
    return precision, precision * float(np.var(mu_p[is_fresh_p]))


def _penalty(
    knot_v: Ints,
    table_version: int,
    step_variance: float,
    num_domains: int,
    known: tuple[float, float],
) -> Floats:
    """Precision of what is thought before any data, but for the domains'."""
    num_knots = len(knot_v)
    penalty_kk = np.zeros((num_knots + num_domains + 2,) * 2)
    for i, gap in enumerate(np.diff(knot_v)):
        tie = 1 / max(float(gap) * step_variance, SMALLEST_VARIANCE)
        penalty_kk[i : i + 2, i : i + 2] += tie * np.array([[1, -1], [-1, 1]])
    pinned = np.searchsorted(knot_v, table_version)
    penalty_kk[pinned, pinned] += 1 / SMALLEST_VARIANCE
    penalty_kk[num_knots, num_knots] = OFFSET_SIGMA**-2 + known[0]
    penalty_kk[-1, -1] = SCALE_SIGMA**-2 + known[1]
    return penalty_kk


@dataclass(frozen=True)
class _Problem:
    """Residuals to be explained by a linear model, robustly."""

    design: csr_array  # responses by coefficients
    rest_s: Floats  # log tokens
    is_cut_s: Bools
    sigma_s: Floats  # deviation of each
    weight_s: Floats  # precision of each

    def solve(self, penalty_kk: Floats, start_k: Floats) -> tuple[Floats, Floats]:
        """Coefficients at which scores and penalty balance; their covariance, roughly.

        Each round moves by the weighted least squares of the bounded residuals (Huber's
        H-algorithm), which never overshoots, since no score has a slope above 1.
        """
        weighted = self.design.multiply(self.weight_s[:, None])
        factor = cho_factor((self.design.T @ weighted).toarray() + penalty_kk)
        coefficient_k = start_k
        for _ in range(MAX_ROUNDS):
            score_s, _ = self.scores(coefficient_k)
            step_k = cho_solve(factor, self.design.T @ score_s - penalty_kk @ coefficient_k)
            coefficient_k = coefficient_k + step_k
            if np.max(np.abs(step_k)) < TOLERANCE:
                break
        return coefficient_k, cho_solve(factor, np.eye(len(penalty_kk)))

    def scores(self, coefficient_k: Floats) -> tuple[Floats, Floats]:
        """Pull of each response, and how it falls as the fit moves towards it."""
        z_s = (self.rest_s - self.design @ coefficient_k) / self.sigma_s
        pull_s, slope_s = bounded_score(z_s, self.is_cut_s)
        return self.weight_s * self.sigma_s * pull_s, self.weight_s * slope_s

    def bootstrap(
        self, coefficient_k: Floats, penalty_kk: Floats, asked_ka: Floats, group_s: Ints, seed: int
    ) -> Floats:
        """How far the asked sums of coefficients move when prompts are drawn anew; draws by sums.

        One Newton step from the fit, so that the cost does not grow with the rounds of a fit.
        """
        score_s, slope_s = self.scores(coefficient_k)
        hessian_kk = (self.design.T @ self.design.multiply(slope_s[:, None])).toarray() + penalty_kk
        pull_sa = self.design @ np.linalg.solve(hessian_kk, asked_ka) * score_s[:, None]
        num_prompts = int(group_s.max()) + 1
        pull_pa = np.stack([np.bincount(group_s, pull, num_prompts) for pull in pull_sa.T], axis=1)
        rng = np.random.default_rng(seed)
        uniform_p = np.full(num_prompts, 1 / num_prompts)
        moved = [(rng.multinomial(num_prompts, uniform_p) - 1) @ pull_pa for _ in range(NUM_DRAWS)]
        return np.array(moved)


def bounded_score(z_s: Floats, is_cut_s: Bools) -> tuple[Floats, Floats]:
    """Huber's score, z within BEND and BEND beyond, and its slope; of a cut response, expected.

    With Z standard normal and c the score, a response cut at z pulls with E[c(Z) | Z > z]; the
    slope of that is hazard(z) (E[c(Z) | Z > z] - c(z)).
    """
    clipped_s = np.clip(z_s, -BEND, BEND)
    low_s = np.minimum(clipped_s, BEND)
    density_s = np.exp(-(low_s**2) / 2) - np.exp(-(BEND**2) / 2)
    inside_s = density_s / np.sqrt(2 * np.pi) + BEND * ndtr(-BEND)
    inside_s -= BEND * np.maximum(ndtr(-BEND) - ndtr(z_s), 0.0)
    log_beyond_s = log_ndtr(-z_s)
    with np.errstate(over="ignore", under="ignore"):
        expected_s = np.where(z_s >= BEND, BEND, inside_s / np.exp(np.maximum(log_beyond_s, -60.0)))
        hazard_s = np.exp(-(z_s**2) / 2 - np.log(2 * np.pi) / 2 - log_beyond_s)
    return (
        np.where(is_cut_s, expected_s, clipped_s),
        np.where(is_cut_s, hazard_s * (expected_s - clipped_s), np.abs(z_s) < BEND),
    )
