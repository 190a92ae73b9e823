"""Which weighted sum of all that a prompt says gives its mean log length?

A ridge on every n-gram, weighted by tf-idf, on the scalars of the text, and on the domain where it
is known; solved by LSQR (Paige and Saunders 1982), which needs the sparse table alone. The few
components that `features.py` keeps are those in which prompts differ most; a rare word on which the
length hangs is not among them.

Arrays end in an axis legend: _p prompts, _g n-grams, _d scalars, _k domains, _c columns of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from stages.predictor.backend import Floats
from stages.predictor.crossval import assign_folds
from stages.predictor.features import Weighed

PENALTY = 0.5  # on the squared weights; n-grams of a kind, scalars, domain have length about 1 each
MAX_STEPS = 30  # of LSQR
NUM_FOLDS = 3  # in which the domain of training prompts is read by a fit on the others
CONSTANT = 1e-6  # a scalar whose deviation is less does not vary


class Readings(NamedTuple):
    """What is read of each prompt, in log tokens."""

    mu_p: Floats  # mean log length
    domain_p: Floats  # of that, the part of the domain; 0 where it is not known


@dataclass(frozen=True)
class Wording:
    """A linear reading of prompts, kept within the range it was fitted on."""

    word_g: Floats  # log tokens per unit of each column, as below
    character_g: Floats
    scalar_d: Floats
    domain_k: Floats
    intercept: float  # log tokens
    lowest: float  # log tokens; readings are clipped, since a line runs on where data end
    highest: float

    def read(self, weighed: Weighed) -> Readings:
        """Read the prompts."""
        domain_p = weighed.domains_pk @ self.domain_k
        mu_p = (
            weighed.words_pg @ self.word_g
            + weighed.characters_pg @ self.character_g
            + weighed.scalars_pd.astype(np.float64) @ self.scalar_d
            + domain_p
            + self.intercept
        )
        return Readings(np.clip(mu_p, self.lowest, self.highest), domain_p)


def fit_wording(
    weighed: Weighed, target_p: Floats, texts: Sequence[str], seed: int
) -> tuple[Wording, Floats]:
    """Fit the reading.

    Args:
        weighed: What the prompts say.
        target_p: Mean log length of each prompt's responses.
        texts: Of the prompts, so that equal ones are held out together.
        seed: Of the folds.

    Returns:
        The reading, and the domain's part by like readings that have not seen the prompt: what a
        learner must be shown that will be shown that of new prompts.
    """
    mean_d = weighed.scalars_pd.mean(axis=0, dtype=np.float64)
    scale_d = weighed.scalars_pd.std(axis=0, dtype=np.float64) * np.sqrt(len(mean_d))
    scale_d[scale_d < CONSTANT] = np.inf  # a constant scalar says nothing: it becomes 0
    scalar_pd = sparse.csr_array((weighed.scalars_pd - mean_d) / scale_d)
    parts = (weighed.words_pg, weighed.characters_pg, scalar_pd, weighed.domains_pk)
    table_pc = sparse.csr_array(sparse.hstack(parts, format="csr", dtype=np.float64))
    weight_c, mean = _solve(table_pc, target_p)
    ends = np.cumsum([part.shape[1] for part in parts])[:-1]
    word_g, character_g, scalar_d, domain_k = np.split(weight_c, ends)
    scalar_d = scalar_d / scale_d
    wording = Wording(
        word_g, character_g, scalar_d, domain_k, mean - float(mean_d @ scalar_d),
        float(target_p.min()), float(target_p.max()),
    )  # fmt: skip
    fold_p = assign_folds(texts, NUM_FOLDS, seed)
    domain_p = weighed.domains_pk @ domain_k
    if len(domain_k) == 0 or fold_p.max() == 0:
        return wording, domain_p
    for fold in range(fold_p.max() + 1):
        is_out_p = fold_p == fold
        weight_c, _ = _solve(table_pc[~is_out_p], target_p[~is_out_p])
        domain_p[is_out_p] = weighed.domains_pk[is_out_p] @ weight_c[ends[-1] :]
    return wording, domain_p


def _solve(table_pc: sparse.csr_array, target_p: Floats) -> tuple[Floats, float]:
    """The weight of each column, and what is added to the sum."""
    mean = float(target_p.mean())
    weight_c = lsqr(table_pc, target_p - mean, damp=np.sqrt(PENALTY), iter_lim=MAX_STEPS)[0]
    return weight_c, mean
