"""How long will the responses be, from the text alone, on a CPU and with nothing to download?

mu is a mean of two predictors of the log length: a linear reading of the whole wording
(`wording.py`), and extremely randomised trees (`forest.py`) on a few features and the part that the
reading gives to the domain. What cut responses would have been is told by a censored ridge
(`ridge.py`). How much the trees count, and the spread (`spread.py`), are learned from
cross-validated predictions.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import kendalltau
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from stages.predictor.backend import Bools, Floats, HeldOut, Ints, Observations, Prediction
from stages.predictor.crossval import assign_folds
from stages.predictor.features import Counts, FeatureSpace, Floats32, Vocabularies
from stages.predictor.forest import Forest, grow
from stages.predictor.ridge import fit_censored_ridge
from stages.predictor.spread import Spread, constant_spread, fit_spread
from stages.predictor.wording import Wording, fit_wording

CHUNK = 2048  # prompts predicted at once, which bounds memory
TREE_SHARES = np.arange(11) / 10  # tried for the mean of wording and trees


class Opinions(NamedTuple):
    """What the parts of the predictor say of each prompt, in log tokens."""

    wording_p: Floats
    trees_p: Floats
    forest_spread_p: Floats

    def blend(self, tree_share: float) -> Floats:
        """The predicted mean log length."""
        return (1 - tree_share) * self.wording_p + tree_share * self.trees_p


@dataclass(frozen=True)
class Location:
    """The fitted parts that say where the log lengths lie."""

    features: FeatureSpace
    wording: Wording
    forest: Forest

    def judge(self, counts: Counts) -> Opinions:
        """Ask every part about the prompts."""
        weighed = self.features.weigh(counts)
        readings = self.wording.read(weighed)
        leaves = self.forest.predict(_with_domain(self.features.apply(weighed), readings.domain_p))
        return Opinions(readings.mu_p, leaves.mean_p, leaves.spread_p)


@dataclass(frozen=True)
class EmbeddedPredictor:
    """A fitted predictor."""

    vocabularies: Vocabularies
    location: Location
    tree_share: float  # of the trees in mu; the rest is the wording's
    spread: Spread

    def predict(
        self, texts: Sequence[str], domains: Sequence[str | None] | None = None
    ) -> Prediction:
        """Predict the responses' lengths, a prompt each, in the order of the texts."""
        # One BLAS thread, or the last bits would depend on their number.
        with threadpool_limits(1, user_api="blas"):
            chunks = [
                self.location.judge(self.vocabularies.count(texts[rows], domains and domains[rows]))
                for rows in (slice(start, start + CHUNK) for start in range(0, len(texts), CHUNK))
            ]
        opinions = Opinions(*(np.concatenate(part) for part in zip(*chunks, strict=True)))
        mu_p = opinions.blend(self.tree_share)
        return self.spread.apply(mu_p, opinions.forest_spread_p, domains)


def fit(
    observations: Observations, num_folds: int, seed: int
) -> tuple[EmbeddedPredictor, HeldOut | None]:
    """Fit the predictor, and predict each prompt by a fit that has not seen it.

    Args:
        observations: What the target model answered.
        num_folds: Folds of the cross-validation, at least 2.
        seed: Of the folds, the projections and the trees.

    Returns:
        The predictor, and the held-out predictions; None where all prompts are one text, so that
        nothing can be held out. The predictor's spread is then wide.
    """
    vocabularies = Vocabularies.collect(observations.texts, observations.domains)
    counts = vocabularies.count(observations.texts, observations.domains)
    fold_p = assign_folds(observations.texts, num_folds, seed)
    # One BLAS thread: on matrices this small more of them wait for each other, and the last bits
    # of the result would depend on their number.
    with threadpool_limits(1, user_api="blas"):
        location = _fit_location(counts, observations, seed)
        if fold_p.max() == 0:
            return EmbeddedPredictor(vocabularies, location, 0.0, constant_spread()), None
        opinions = _judge_held_out(counts, observations, fold_p, seed)
    tree_share = _choose_tree_share(opinions, observations)
    fitted = fit_spread(opinions.blend(tree_share), opinions.forest_spread_p, observations)
    predictor = EmbeddedPredictor(vocabularies, location, tree_share, fitted.spread)
    return predictor, HeldOut(fitted.held_out, fold_p)


def _fit_location(counts: Counts, observations: Observations, seed: int) -> Location:
    features = FeatureSpace.fit(counts, seed)
    weighed = features.weigh(counts)
    feature_pd = features.apply(weighed)
    ridge = fit_censored_ridge(feature_pd, observations)
    square_s = observations.weight_s * ridge.filled_s**2
    square_p = np.bincount(observations.prompt_s, square_s).astype(np.float64)
    wording, domain_p = fit_wording(weighed, ridge.target_p, observations.texts, seed)
    forest = grow(_with_domain(feature_pd, domain_p), ridge.target_p, square_p, seed)
    return Location(features, wording, forest)


def _with_domain(feature_pd: Floats32, domain_p: Floats) -> Floats32:
    """The features of the trees."""
    return np.column_stack((feature_pd, domain_p.astype(np.float32)))


def _judge_held_out(
    counts: Counts, observations: Observations, fold_p: Ints, seed: int
) -> Opinions:
    """Every prompt judged by a fit on the other folds."""
    held_out = Opinions(*(np.empty(len(fold_p)) for _ in Opinions._fields))
    for fold in range(fold_p.max() + 1):
        is_out_p: Bools = fold_p == fold
        location = _fit_location(counts.subset(~is_out_p), observations.subset(~is_out_p), seed)
        for whole_p, part_p in zip(held_out, location.judge(counts.subset(is_out_p)), strict=True):
            whole_p[is_out_p] = part_p
    return held_out


def _choose_tree_share(opinions: Opinions, observations: Observations) -> float:
    """The share that orders held-out prompts best, by tau; of equal ones the smallest."""
    log_mean_p = np.bincount(
        observations.prompt_s, observations.weight_s * observations.log_tokens_s
    )

    def tau(share: float) -> float:
        return float(np.nan_to_num(kendalltau(opinions.blend(share), log_mean_p).statistic))

    return float(max(TREE_SHARES, key=tau))
