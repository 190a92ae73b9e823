"""What of a prompt's text does the predictor see?

Word 1-2-grams and character 3-grams, weighted by tf-idf, beside the scalars of the text and its
domain, where it is known. For learners that need few features the n-grams are reduced by truncated
SVD (latent semantic analysis, Deerwester et al. 1990). Counting needs no fitting, so
cross-validation counts once; weights and projections are fitted on training prompts alone.

Arrays end in an axis legend: _p prompts, _g n-grams, _k components or domains, _d features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stages.predictor import scalars
from stages.predictor.ngrams import Characters, Vocabulary, Words, collect

Floats32 = NDArray[np.float32]
Domains = Sequence[str | None] | None  # kind of task of each prompt, where known

MAX_GRAMS = 20_000  # of each kind
MIN_PROMPTS = 2  # in which an n-gram must stand
WORD_COMPONENTS = 128
CHARACTER_COMPONENTS = 64
POWER_ITERATIONS = 2  # of the randomised SVD
OVERSAMPLING = 10  # directions beyond those kept


@dataclass(frozen=True)
class Vocabularies:
    """The n-grams that are counted, and the domains that are told apart."""

    words: Vocabulary
    characters: Vocabulary
    domains: tuple[str, ...]

    @classmethod
    def collect(cls, texts: Sequence[str], domains: Domains = None) -> "Vocabularies":
        """The n-grams that stand in the most texts, and all domains."""
        return cls(
            collect(Words(), texts, MAX_GRAMS, MIN_PROMPTS),
            collect(Characters(), texts, MAX_GRAMS, MIN_PROMPTS),
            tuple(sorted({domain for domain in domains or () if domain is not None})),
        )

    @classmethod
    def of(
        cls, words: Sequence[str], characters: Sequence[str], domains: Sequence[str]
    ) -> "Vocabularies":
        """Of these n-grams and domains, as stored."""
        return cls(Vocabulary(Words(), words), Vocabulary(Characters(), characters), tuple(domains))

    def count(self, texts: Sequence[str], domains: Domains = None) -> "Counts":
        """Count the texts.

        Args:
            texts: A prompt each.
            domains: Of the prompts; None, of one or of all: not known.
        """
        return Counts(
            self.words.count(texts),
            self.characters.count(texts),
            scalars.measure(texts),
            self._tell(domains or [None] * len(texts)),
        )

    def _tell(self, domains: Sequence[str | None]) -> sparse.csr_array:
        """1 in the column of each prompt's domain."""
        column = {domain: k for k, domain in enumerate(self.domains)}
        cells = [(p, column[d]) for p, d in enumerate(domains) if d in column]
        row, at = np.array(cells, dtype=np.int64).reshape(-1, 2).T
        ones = np.ones(len(cells), dtype=np.float32)
        return sparse.csr_array((ones, (row, at)), shape=(len(domains), len(column)))


@dataclass(frozen=True)
class Counts:
    """What was counted in each prompt; rows are prompts."""

    words_pg: sparse.csr_array
    characters_pg: sparse.csr_array
    scalars_pd: Floats32
    domains_pk: sparse.csr_array

    def subset(self, is_kept_p: NDArray[np.bool_]) -> "Counts":
        """The counts of some of the prompts."""
        return Counts(
            self.words_pg[is_kept_p], self.characters_pg[is_kept_p],
            self.scalars_pd[is_kept_p], self.domains_pk[is_kept_p],
        )  # fmt: skip


class Weighed(NamedTuple):
    """What stands in each prompt, n-grams weighted; rows are prompts."""

    words_pg: sparse.csr_array  # each row of length 1, or 0 without a known n-gram
    characters_pg: sparse.csr_array
    scalars_pd: Floats32
    domains_pk: sparse.csr_array


@dataclass(frozen=True)
class Projection:
    """tf-idf weights and the projection on the strongest directions."""

    weight_g: Floats32  # inverse document frequency; 0: left out
    components_gk: Floats32

    @classmethod
    def fit(cls, count_pg: sparse.csr_array, num_components: int, seed: int) -> "Projection":
        """Fit on training prompts; fewer components where the data hold fewer."""
        num_prompts, num_grams = count_pg.shape
        prompts_g = np.bincount(count_pg.indices, minlength=num_grams)
        idf_g = np.log((1 + num_prompts) / (1 + prompts_g)) + 1
        weight_g = np.where(prompts_g >= MIN_PROMPTS, idf_g, 0.0).astype(np.float32)
        used = np.flatnonzero(weight_g)
        num_components = min(num_components, num_prompts - 1, len(used) - 1)
        if num_components < 1:
            return cls(weight_g, np.zeros((num_grams, 0), dtype=np.float32))
        components_gk = np.zeros((num_grams, num_components), dtype=np.float32)
        components_gk[used] = _right_singular_vectors(
            _weigh(count_pg, weight_g)[:, used], num_components, seed
        )
        return cls(weight_g, components_gk)

    def weigh(self, count_pg: sparse.csr_array) -> sparse.csr_array:
        """The prompts' n-grams by their weights."""
        return _weigh(count_pg, self.weight_g)

    def apply(self, weighed_pg: sparse.csr_array) -> Floats32:
        """The prompts along the components."""
        projected: Floats32 = weighed_pg @ self.components_gk
        return projected


def _weigh(count_pg: sparse.csr_array, weight_g: Floats32) -> sparse.csr_array:
    """(1 + log count) x idf, each prompt scaled to length 1."""
    weighed = count_pg.copy()
    weighed.data = (1 + np.log(weighed.data)) * weight_g[weighed.indices]
    row = np.repeat(np.arange(weighed.shape[0]), np.diff(weighed.indptr))
    length_p = np.sqrt(np.bincount(row, weighed.data**2, minlength=weighed.shape[0]))
    weighed.data /= np.where(length_p > 0, length_p, 1.0)[row].astype(np.float32)
    return weighed


def _right_singular_vectors(
    weighed_pg: sparse.csr_array, num_components: int, seed: int
) -> Floats32:
    """The strongest directions, by randomised subspace iteration (Halko et al. 2011, 4.4).

    scikit-learn's does the same, but orthonormalises on the n-grams' side too, which are many more
    than the prompts: that took three quarters of the time of a fit.
    """
    num_prompts, num_grams = weighed_pg.shape
    width = min(num_components + OVERSAMPLING, num_prompts, num_grams)
    start = np.random.default_rng(seed).standard_normal((num_grams, width), dtype=np.float32)
    basis_pk = np.linalg.qr(weighed_pg @ start).Q
    for _ in range(POWER_ITERATIONS):
        basis_pk = np.linalg.qr(weighed_pg @ (weighed_pg.T @ basis_pk)).Q
    image_gk = weighed_pg.T @ basis_pk
    values, vectors = np.linalg.eigh(image_gk.T.astype(np.float64) @ image_gk)
    strongest = np.argsort(-values, kind="stable")[:num_components]
    scale = np.sqrt(np.maximum(values[strongest], np.finfo(np.float32).tiny))
    directions_gk = image_gk @ (vectors[:, strongest] / scale).astype(np.float32)
    # A direction has two signs: the one with the larger entry positive, whatever LAPACK says.
    largest = np.abs(directions_gk).argmax(axis=0)
    signs = np.sign(directions_gk[largest, np.arange(num_components)])
    return np.asarray(directions_gk * signs, dtype=np.float32)


@dataclass(frozen=True)
class FeatureSpace:
    """The features of a prompt: word components, character components, scalars."""

    words: Projection
    characters: Projection

    @classmethod
    def fit(cls, counts: Counts, seed: int) -> "FeatureSpace":
        """Fit weights and projections on training prompts."""
        return cls(
            Projection.fit(counts.words_pg, WORD_COMPONENTS, seed),
            Projection.fit(counts.characters_pg, CHARACTER_COMPONENTS, seed),
        )

    def weigh(self, counts: Counts) -> Weighed:
        """The counts by their weights."""
        return Weighed(
            self.words.weigh(counts.words_pg), self.characters.weigh(counts.characters_pg),
            counts.scalars_pd, counts.domains_pk,
        )  # fmt: skip

    def apply(self, weighed: Weighed) -> Floats32:
        """The few features of the prompts: float32, prompts x features."""
        return np.hstack(
            (
                self.words.apply(weighed.words_pg),
                self.characters.apply(weighed.characters_pg),
                weighed.scalars_pd,
            )
        )
