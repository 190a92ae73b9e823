"""Which prompts are held out together?

Each fold holds out its prompts from the fit that predicts them. Prompts whose texts are equal but
for case and white space stand on one side. Prompts that differ in their numbers are different
questions, and may stand on both: the prompts to be predicted are drawn from the same families.

Arrays end in an axis legend: _p prompts.
"""

from collections.abc import Sequence

import numpy as np

from stages.predictor.backend import Ints
from stages.tables.prompts import normalised_text


def assign_folds(texts: Sequence[str], num_folds: int, seed: int) -> Ints:
    """The fold of each prompt, 0 to num_folds - 1; fewer folds where fewer texts differ."""
    normalised = [normalised_text(text) for text in texts]
    number = {text: index for index, text in enumerate(dict.fromkeys(normalised))}
    fold = np.random.default_rng(seed).permutation(len(number)) % min(num_folds, len(number))
    return fold[[number[text] for text in normalised]]
