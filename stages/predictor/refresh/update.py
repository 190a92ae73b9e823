"""What are the lengths of a table, blended with what was observed of its prompts?

A pure function from a lengths table and the responses that count: drift and present variances are
fitted in turn, each prompt's belief is updated by its own responses, the derived columns follow.

Arrays end in an axis legend: _p prompts (rows of the lengths table), _s responses.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from stages.lengths import table as lengths_table
from stages.predictor.backend import Bools, Floats, Ints
from stages.predictor.refresh import drift as drifts
from stages.predictor.refresh import variance
from stages.predictor.refresh.drift import ENOUGH_PROMPTS, Drift
from stages.predictor.refresh.evidence import Observed
from stages.predictor.refresh.posterior import Belief, blend
from stages.predictor.refresh.scores import Tails
from stages.predictor.refresh.variance import Factors, Variances
from stages.predictor.refresh.verdict import Verdict, judge
from stages.tables.schemas import Lengths

OBSERVED_WEIGHT = 0.9  # of a prompt's own responses, from which on its source is `observed`
SIGMA_FLOOR = 0.01  # log tokens, of either part of a spread; below it nothing would ever move
FIT_ROUNDS = 4  # drift weighs by the variances, these are what drift leaves


@dataclass(frozen=True)
class RefreshConfig:
    """How much the past counts, and which responses count."""

    version_sigma: float = 0.01  # log tokens a policy version: how fast lengths wander
    group_samples: int | None = None  # responses of a whole sample group; None: samples_per_prompt
    profile_model: str | None = None  # whose responses count; None: the only model's
    seed: int = 0  # of the bootstrap


class Refreshed(NamedTuple):
    """The new table and what was learned on the way."""

    lengths: pl.DataFrame
    drift: Drift
    factors: Factors
    verdict: Verdict | None
    version: int  # policy version at which the new table holds
    is_split_known: bool  # whether chance between samples was known, or could be measured
    is_in_order: bool  # whether no response is of a version before the table's


def refresh(
    lengths: pl.DataFrame, observed: Observed, config: RefreshConfig, table_version: int = 0
) -> Refreshed:
    """Blend predicted lengths with observed ones.

    Args:
        lengths: A complete lengths table.
        observed: Responses to its prompts, as `evidence.join` finds them.
        config: How.
        table_version: Policy version at which the table holds.
    """
    mu_p = lengths["mu"].to_numpy()
    domain_p = lengths["domain"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
    step_variance = config.version_sigma**2
    oldest, newest = int(observed.version_s[0]), int(observed.version_s[-1])
    version = max(newest, table_version)
    variances, is_unsplit_p = _promised(lengths, step_variance * max(oldest - table_version, 0))
    # Rows of one text share their responses: one of them is enough to learn from.
    is_first_p = lengths["prompt_hash"].is_first_distinct().to_numpy()
    sample = observed.subset(is_first_p[observed.prompt_s])
    tails = Tails.of(lengths)
    drift, factors = _fit(mu_p, domain_p, variances, tails, sample, table_version, config)
    present = variances.times(factors, domain_p)
    verdict = judge(mu_p, variances, sample.newest_groups(), config.seed)

    expected_p = drift.apply(mu_p, domain_p, variances.is_fresh_p)
    prior = Belief(np.zeros_like(mu_p), present.shared_p)  # of what comes on top of that
    is_split_known = not is_unsplit_p.any() or _can_split(sample)
    can_blend_p = ~is_unsplit_p | is_split_known
    own = observed.subset(can_blend_p[observed.prompt_s])
    own = tails.normal_scores(_rest(own, drift, expected_p), present)
    belief = blend(prior, present.chance_p, own, step_variance, (oldest, version))

    aged_p = prior.variance_p + step_variance * (version - oldest)
    weight_p = 1 - belief.variance_p / aged_p
    is_seen_p = np.isin(np.arange(len(lengths)), own.prompt_s)
    sample_sigma = pl.Series(np.where(can_blend_p, np.sqrt(present.chance_p), np.nan))
    derived = ("expected_tokens", "p50", "p90", "p_cap", "expected_longest")
    frame = lengths.drop(derived).with_columns(
        mu=expected_p + belief.mean_p,
        sigma=np.sqrt(belief.variance_p + present.chance_p),
        sample_sigma=sample_sigma.fill_nan(None),
        source=_sources(lengths["source"], is_seen_p, weight_p),
    )
    return Refreshed(
        lengths_table.complete(frame),
        drift,
        factors,
        verdict,
        version,
        is_split_known,
        oldest >= table_version,
    )


def _promised(lengths: pl.DataFrame, aged: float) -> tuple[Variances, Bools]:
    """The variances that the table states, and which rows do not state how they split.

    Of those half is taken for chance, until the factors tell.
    """
    sigma_p = lengths["sigma"].to_numpy()
    chance_p = lengths["sample_sigma"].fill_null(np.nan).to_numpy()
    is_unsplit_p = np.isnan(chance_p)
    chance_square_p = np.where(is_unsplit_p, sigma_p**2 / 2, chance_p**2)
    shared_p = np.maximum(sigma_p**2 - chance_square_p, SIGMA_FLOOR**2) + aged
    chance_square_p = np.maximum(chance_square_p, SIGMA_FLOOR**2)
    is_fresh_p = (lengths["source"].cast(pl.String) == "predicted").to_numpy()
    return Variances(shared_p, chance_square_p, is_fresh_p), is_unsplit_p


def _can_split(observed: Observed) -> bool:
    """Whether enough prompts have two responses of one policy version."""
    samples_p = np.bincount(observed.newest_groups().prompt_s)
    return int((samples_p >= 2).sum()) >= ENOUGH_PROMPTS


def _fit(
    mu_p: Floats,
    domain_p: Ints,
    variances: Variances,
    tails: Tails,
    observed: Observed,
    table_version: int,
    config: RefreshConfig,
) -> tuple[Drift, Factors]:
    """Drift and factors, in turn; the factors stay 1 where prompts are few."""
    factors = variance.unchanged(int(domain_p.max()) + 1)
    newest = observed.newest_groups()
    for _ in range(FIT_ROUNDS):
        present = variances.times(factors, domain_p)
        drift = drifts.fit(
            mu_p, domain_p, present, observed, table_version, config.version_sigma**2, config.seed
        )
        if not drift.is_full:
            break
        expected_p = drift.apply(mu_p, domain_p, variances.is_fresh_p)
        rest = tails.normal_scores(_rest(newest, drift, expected_p), present)
        factors = variance.fit(variances, domain_p, rest)
    return drift, factors


def _rest(observed: Observed, drift: Drift, expected_p: Floats) -> Observed:
    """What drift leaves of the log lengths, as of the present version."""
    return observed.shifted(expected_p[observed.prompt_s] + drift.past(observed.version_s))


def _sources(before: pl.Series, is_seen_p: Bools, weight_p: Floats) -> pl.Series:
    """`observed` where a prompt's own responses decide, `blended` where they have a say."""
    now = np.where(weight_p >= OBSERVED_WEIGHT, "observed", "blended")
    kept = before.cast(pl.String).to_numpy()
    is_kept_p = ~is_seen_p | (kept == "observed")
    return pl.Series(np.where(is_kept_p, kept, now), dtype=Lengths.source.dtype)
