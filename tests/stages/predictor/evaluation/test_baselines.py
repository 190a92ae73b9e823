import numpy as np
import pytest

from stages.predictor.evaluation.baselines import NEIGHBOURS, constant, domain_means, nearest
from stages.predictor.evaluation.measures import Label, measure
from stages.predictor.features import Vocabularies

FOLD_P = np.array([0, 0, 1, 1])


def test_a_domain_mean_leaves_out_its_own_fold() -> None:
    log_p = np.array([1.0, 2.0, 3.0, 7.0])
    assert domain_means(log_p, ["x", "x", "x", "y"], FOLD_P).tolist() == [3.0, 3.0, 1.5, 1.5]
    assert domain_means(log_p, ["x", None, None, "x"], FOLD_P).tolist() == [7.0, 3.0, 2.0, 1.0]


def test_neighbours_are_alike_and_of_other_folds() -> None:
    kinds = np.arange(80) % 2
    texts = [
        ("add the numbers" if kind else "prove this theorem") + f" no {i}"
        for i, kind in enumerate(kinds)
    ]
    fold_p = np.arange(80) // 16
    near_pk = nearest(Vocabularies.collect(texts).words.count(texts), fold_p, seed=0)
    assert near_pk.shape == (80, NEIGHBOURS)
    assert (kinds[near_pk] == kinds[:, None]).all()
    assert (fold_p[near_pk] != fold_p[:, None]).all()


def test_the_constant_orders_nothing() -> None:
    tokens_p = np.array([1.0, 2.0, 9.0])
    found = measure(
        constant(Label(tokens_p, np.log(tokens_p), np.zeros(3, dtype=bool))),
        Label(tokens_p, np.log(tokens_p), np.zeros(3, dtype=bool)),
    )
    assert found.tau is None
    assert found.log_r2 == pytest.approx(0.0)
    assert found.mae == pytest.approx(8 / 3)
