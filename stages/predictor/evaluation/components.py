"""How much do prompts differ in length, and how much do the samples of one prompt?

Each prompt has a location and a spread of log length of its own, and its samples scatter about the
one by the other: normally, or with a Student's t tail above or on both sides, whichever is
likeliest. The joint distribution of locations and spreads over prompts is the likeliest one on a
grid (nonparametric maximum likelihood, Kiefer and Wolfowitz 1956), found by EM from a flat start;
few rounds keep it smooth. So nothing is assumed about families of prompts, and a noisy few do not
make all look noisy. A response counts by the chance of its whole number of tokens, a cut one by
that of being at least as long.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row, _a points of the grid,
_u different lengths, _d draws.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtr, stdtr

from stages.predictor.backend import Floats, Ints
from stages.predictor.evaluation.labels import Samples

FEWEST_REPEATED = 32  # prompts with two samples or more, without which chance is not measurable
MAX_PROMPTS = 2_000  # that it is fitted on, which bounds time and memory
NUM_LOCATIONS = 64
SPREADS = np.geomspace(0.05, 2.0, 10)  # log tokens
# Degrees of freedom below the location, and above, that are tried: now and then a response runs on.
# With fewer than 2 the longest of several were all chance, and an order by other samples beat that.
TAILS = ((np.inf, np.inf), (4.0, 4.0), (np.inf, 4.0), (np.inf, 2.0))
BEYOND = 1.0  # log tokens that locations may lie past the longest response, where some are cut
LEAST_RANGE = 0.1  # log tokens, of locations
ROUNDS = 100
LEAST_CHANCE = 1e-12  # of a response, so that its log is finite
BLOCK = 500  # different lengths computed at once


@dataclass(frozen=True)
class Components:
    """The distribution of prompts, each a distribution of log lengths."""

    location_a: Floats  # log tokens
    spread_a: Floats  # log tokens
    weight_a: Floats  # sums to 1
    step: float  # log tokens between locations
    tails: tuple[float, float]  # degrees of freedom of samples below their location, and above
    num_repeated: int  # prompts with two samples or more that it rests on

    @property
    def between(self) -> float:
        """Deviation of the locations, in log tokens."""
        mean = self.weight_a @ self.location_a
        return float(np.sqrt(self.weight_a @ (self.location_a - mean) ** 2))

    @property
    def within(self) -> float:
        """Scale of a sample about its prompt's location, root mean square, in log tokens."""
        return float(np.sqrt(self.weight_a @ self.spread_a**2))

    def draw(
        self, samples_p: Ints, cap_p: Floats, num_draws: int, rng: np.random.Generator
    ) -> Samples:
        """New prompts with these numbers of samples and caps, their samples drawn many times over.

        Tokens and cuts are draws by samples: a row holds one response of each sample.
        """
        point_p = rng.choice(len(self.weight_a), len(samples_p), p=self.weight_a)
        location_p = self.location_a[point_p] + self.step * (rng.random(len(samples_p)) - 0.5)
        prompt_s = np.repeat(np.arange(len(samples_p)), samples_p)
        shape = (num_draws, len(prompt_s))
        z_ds = rng.standard_normal(shape)
        # Student's t with nu degrees of freedom is a normal over the root of a chi-square over nu.
        for is_side_ds, nu in zip((z_ds < 0, z_ds >= 0), self.tails, strict=True):
            if np.isfinite(nu):
                z_ds[is_side_ds] /= np.sqrt(rng.chisquare(nu, int(is_side_ds.sum())) / nu)
        log_cap_s = np.log(cap_p)[prompt_s]
        log_ds = location_p[prompt_s] + self.spread_a[point_p][prompt_s] * z_ds
        tokens_ds = np.maximum(np.round(np.exp(np.minimum(log_ds, log_cap_s))), 1.0)
        starts_p = np.concatenate(([0], np.cumsum(samples_p)[:-1])).astype(np.int64)
        return Samples(starts_p, tokens_ds, log_ds >= log_cap_s)


def fit_components(samples: Samples, seed: int) -> Components | None:
    """Fit to observed responses; None where too few prompts have two.

    Args:
        samples: The responses.
        seed: Of the choice of prompts, where there are more than MAX_PROMPTS.
    """
    num_repeated = int((samples.samples_p > 1).sum())
    if num_repeated < FEWEST_REPEATED:
        return None
    samples = _some_prompts(samples, seed)
    log_s = np.log(samples.tokens_s)
    highest = log_s.max() + (BEYOND if samples.is_cut_s.any() else 0.0)
    highest = max(highest, log_s.min() + LEAST_RANGE)
    location, step = np.linspace(log_s.min(), highest, NUM_LOCATIONS, retstep=True)
    location_a = np.repeat(location, len(SPREADS))
    spread_a = np.tile(SPREADS, NUM_LOCATIONS)
    best, most = None, -np.inf
    for tails in TAILS:
        log_chance_pa = _log_chances(samples, location_a, spread_a, tails)
        weight_a, log_likelihood = _weigh(log_chance_pa)
        if log_likelihood > most:
            best, most = (weight_a, tails), log_likelihood
    assert best is not None
    return Components(location_a, spread_a, best[0], float(step), best[1], num_repeated)


def _some_prompts(samples: Samples, seed: int) -> Samples:
    """At most MAX_PROMPTS, those with several samples first."""
    if len(samples.starts_p) <= MAX_PROMPTS:
        return samples
    lot_p = np.random.default_rng(seed).random(len(samples.starts_p))
    kept = np.sort(np.argsort(lot_p - (samples.samples_p > 1))[:MAX_PROMPTS])
    is_kept_s = np.isin(samples.prompt_s, kept)
    samples_p = samples.samples_p[kept]
    starts_p = np.concatenate(([0], np.cumsum(samples_p)[:-1])).astype(np.int64)
    return Samples(starts_p, samples.tokens_s[is_kept_s], samples.is_cut_s[is_kept_s])


def _log_chances(
    samples: Samples, location_a: Floats, spread_a: Floats, tails: tuple[float, float]
) -> Floats:
    """log of the chance of a prompt's responses at each point of the grid."""
    seen_u, seen_s = np.unique(
        np.where(samples.is_cut_s, -samples.tokens_s, samples.tokens_s), return_inverse=True
    )
    log_u = np.empty((len(seen_u), len(location_a)))
    for first, last in pairwise([*range(0, len(seen_u), BLOCK), len(seen_u)]):
        tokens_u = np.abs(seen_u[first:last])
        with np.errstate(divide="ignore"):
            low_u = np.where(tokens_u > 1, np.log(tokens_u - 0.5), -np.inf)
        high_u = np.where(seen_u[first:last] < 0, np.inf, np.log(tokens_u + 0.5))
        above_low_u, above_high_u = (
            _above((edge_u[:, None] - location_a) / spread_a, tails) for edge_u in (low_u, high_u)
        )
        log_u[first:last] = np.log(np.maximum(above_low_u - above_high_u, LEAST_CHANCE))
    log_chance_pa: Floats = np.add.reduceat(log_u[seen_s], samples.starts_p, axis=0)
    return log_chance_pa


def _above(y: Floats, tails: tuple[float, float]) -> Floats:
    """The chance to be above y."""
    above = np.empty_like(y)
    for is_side, nu in zip((y < 0, y >= 0), tails, strict=True):
        above[is_side] = ndtr(-y[is_side]) if np.isinf(nu) else stdtr(nu, -y[is_side])
    return above


def _weigh(log_chance_pa: Floats) -> tuple[Floats, float]:
    """The weights of the grid after some rounds of EM, and the mean log likelihood of a prompt."""
    highest_p = log_chance_pa.max(axis=1)
    chance_pa = np.exp(log_chance_pa - highest_p[:, None])
    num_prompts, num_points = chance_pa.shape
    weight_a = np.full(num_points, 1 / num_points)
    for _ in range(ROUNDS):
        weight_a *= (1 / (chance_pa @ weight_a)) @ chance_pa / num_prompts
    log_likelihood = float(np.mean(np.log(chance_pa @ weight_a) + highest_p))
    return weight_a / weight_a.sum(), log_likelihood
