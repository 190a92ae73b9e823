"""Are these prompts like those that the predictor learned from?

Of a prompt's words and word pairs, the share that no training prompt held. Digits are folded, so
new numbers are no news; a new family of prompts has words and phrases of its own. How much is
usual is told by the training prompts themselves, each measured against the others.

Arrays end in an axis legend: _p prompts, _g n-grams.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from stages.predictor.backend import Floats
from stages.predictor.features import MIN_PROMPTS
from stages.predictor.ngrams import Vocabulary, Words

USUAL = 0.95  # share of training prompts that count as like the others
LEAST_UNUSUAL = 0.1  # share of new n-grams below which no prompt counts as unlike
MAX_PROMPTS = 10_000  # looked at; more would not tell the share better
CHANCE_SIGMAS = 3.0  # by which the number of unlike prompts must exceed the usual one


def usual_unseen_share(texts: Sequence[str], count_pg: sparse.csr_array) -> float:
    """The share of unseen n-grams that USUAL of the training prompts stay within.

    Args:
        texts: The training prompts.
        count_pg: Their word n-grams, by the predictor's vocabulary.
    """
    prompts_g = np.bincount(count_pg.indices, minlength=count_pg.shape[1])
    # Without the prompt itself, an n-gram stands in one prompt less.
    is_seen_g = (prompts_g > MIN_PROMPTS).astype(np.float64)
    return max(LEAST_UNUSUAL, float(np.quantile(_unseen(count_pg @ is_seen_g, texts), USUAL)))


def unseen_shares(words: Vocabulary, texts: Sequence[str]) -> Floats:
    """The share of each prompt's n-grams that the vocabulary does not hold."""
    return _unseen(np.asarray(words.count(texts).sum(axis=1)).ravel(), texts)


def warn_of_unlike(words: Vocabulary, texts: Sequence[str], usual: float) -> str | None:
    """A warning where more prompts are unlike the training prompts than chance explains.

    Args:
        words: The n-grams of the training prompts.
        texts: The prompts, or MAX_PROMPTS of them.
        usual: Share of unseen n-grams that the training prompts stay within.
    """
    num_unlike = int((unseen_shares(words, texts) > usual).sum())
    expected = (1 - USUAL) * len(texts)
    if num_unlike <= expected + CHANCE_SIGMAS * np.sqrt(expected * USUAL):
        return None
    return (
        f"{num_unlike / len(texts):.0%} of the prompts are unlike those of the profile, where "
        f"{1 - USUAL:.0%} is usual: more than {usual:.0%} of their words and word pairs are new; "
        "their lengths may be far off, and surer than they should be; profile some of them too"
    )


def _unseen(seen_p: Floats, texts: Sequence[str]) -> Floats:
    """A text without words is all unseen."""
    words = Words()  # knows none, but tells how many there are
    num_words_p = np.array([len(words.symbols(text)) for text in texts])
    all_p = sum(np.maximum(num_words_p - order + 1, 0) for order in words.orders)
    return np.where(all_p > 0, 1 - seen_p / np.maximum(all_p, 1), 1.0)
