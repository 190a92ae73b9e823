"""What would plain rules score on the same prompts?

A constant and the length of the prompt, of which the constant is told the very labels it is judged
by; the mean of the prompt's domain, where domains are known; and the mean of the nearest prompts by
tf-idf. The last two hold out the prompt's own fold, as the predictor does.

Arrays end in an axis legend: _p prompts, _q other prompts, _g n-grams, _k components.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from stages.predictor.backend import Floats, Ints
from stages.predictor.crossval import assign_folds
from stages.predictor.evaluation.labels import Judged
from stages.predictor.evaluation.measures import Forecast, Label
from stages.predictor.features import WORD_COMPONENTS, Projection

NEIGHBOURS = 10
FOLDS = 5  # of the baselines, where the predictor held out a single one
BLOCK = 512  # prompts compared at once

BASELINES = ("constant", "prompt_length", "domain_mean", "neighbours")


def forecast_baselines(
    judged: Judged, count_pg: sparse.csr_array, seed: int
) -> dict[str, dict[str, Forecast]]:
    """Forecasts by baseline and label; a domain mean only where domains are known.

    Args:
        judged: The prompts.
        count_pg: Word n-grams counted in each.
        seed: Of the projection.
    """
    fold_p, domains = judged.held_out.fold_p, judged.observations.domains
    if not np.ptp(fold_p):  # one fold was held out from prompts that are not judged
        fold_p = assign_folds(judged.observations.texts, FOLDS, seed)
    found: dict[str, dict[str, Forecast]] = {name: {} for name in BASELINES}
    for name, label in judged.labels.items():
        found["constant"][name] = constant(label)
        found["prompt_length"][name] = Forecast(judged.size_p)
    if np.ptp(fold_p):
        neighbour_pk = nearest(count_pg, fold_p, seed)
        for name, label in judged.labels.items():
            if domains is not None:
                found["domain_mean"][name] = _of_log(domain_means(label.log_p, domains, fold_p))
            found["neighbours"][name] = _of_log(label.log_p[neighbour_pk].mean(axis=1))
    return {name: by_label for name, by_label in found.items() if by_label}


def constant(label: Label) -> Forecast:
    """The best constant; it orders nothing."""
    num_prompts = len(label.log_p)
    return Forecast(
        None,
        np.full(num_prompts, np.median(label.tokens_p)),
        np.full(num_prompts, label.log_p.mean()),
    )


def domain_means(log_p: Floats, domains: Sequence[str | None], fold_p: Ints) -> Floats:
    """The mean of each prompt's domain over the other folds; of all, where it has none there."""
    names, domain_p = np.unique([domain or "" for domain in domains], return_inverse=True)
    mean_p = np.empty(len(log_p))
    for fold in np.unique(fold_p):
        is_out_p = fold_p == fold
        rest = domain_p[~is_out_p]
        count = np.bincount(rest, minlength=len(names))
        total = np.bincount(rest, log_p[~is_out_p], minlength=len(names))
        mean = np.where(count > 0, total / np.maximum(count, 1), log_p[~is_out_p].mean())
        mean_p[is_out_p] = mean[domain_p[is_out_p]]
    return mean_p


def nearest(count_pg: sparse.csr_array, fold_p: Ints, seed: int) -> Ints:
    """The nearest prompts of other folds: prompts by NEIGHBOURS, or as many as there are.

    Near is by the cosine of the tf-idf vectors, reduced by SVD. There are two folds or more.
    """
    # Imported here: only training needs it.
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1, user_api="blas"):  # the last bits must not depend on their number
        vector_pk = Projection.fit(count_pg, WORD_COMPONENTS, seed).apply(count_pg)
        length_p = np.linalg.norm(vector_pk, axis=1, keepdims=True)
        unit_pk = vector_pk / np.where(length_p > 0, length_p, 1.0)
        folds = [np.flatnonzero(fold_p == fold) for fold in np.unique(fold_p)]
        fewest = len(fold_p) - max(map(len, folds))
        neighbour_pk = np.empty((len(fold_p), min(NEIGHBOURS, fewest)), np.int64)
        for own in folds:
            others = np.setdiff1d(np.arange(len(fold_p)), own)
            for start in range(0, len(own), BLOCK):
                block = own[start : start + BLOCK]
                far_pq = -(unit_pk[block] @ unit_pk[others].T)
                ranked_pq = np.argpartition(far_pq, neighbour_pk.shape[1] - 1, axis=1)
                neighbour_pk[block] = others[ranked_pq[:, : neighbour_pk.shape[1]]]
    return neighbour_pk


def _of_log(log_p: Floats) -> Forecast:
    return Forecast(log_p, np.exp(log_p), log_p)
