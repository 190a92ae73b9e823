import numpy as np
import pytest
from scipy import sparse

from stages.predictor.features import Weighed
from stages.predictor.wording import PENALTY, fit_wording


def weigh(words: np.ndarray, domains: np.ndarray, scalars: np.ndarray | None = None) -> Weighed:
    scalars = np.zeros((len(words), 2)) if scalars is None else scalars
    none = np.zeros((len(words), 0))
    tables = (sparse.csr_array(table.astype(np.float32)) for table in (words, none, domains))
    words_pg, characters_pg, domains_pk = tables
    return Weighed(words_pg, characters_pg, scalars.astype(np.float32), domains_pk)


def test_it_is_the_ridge_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    words, scalars = rng.random((40, 3)), rng.standard_normal((40, 2)) * [1.0, 5.0] + 2
    domains = np.eye(2)[rng.integers(2, size=40)]
    target = rng.standard_normal(40)
    weighed = weigh(words, domains, scalars)
    scaled = (scalars - scalars.mean(0)) / scalars.std(0) / np.sqrt(2)
    table = np.hstack((words, scaled, domains))
    weight = np.linalg.solve(
        table.T @ table + PENALTY * np.eye(7), table.T @ (target - target.mean())
    )
    wording, _ = fit_wording(weighed, target, [f"{i}" for i in range(40)], seed=0)
    read = wording.read(weighed)
    expected = np.clip(target.mean() + table @ weight, target.min(), target.max())
    assert read.mu_p == pytest.approx(expected, abs=1e-4)
    assert read.domain_p == pytest.approx(domains @ weight[5:], abs=1e-4)


def test_the_domain_to_learn_from_has_not_seen_its_prompt() -> None:
    # A domain of each prompt's own tells all where it was seen, and nothing where it was not.
    target = np.random.default_rng(1).normal(5.0, 1.0, 60)
    texts = [f"{i}" for i in range(60)]
    own = weigh(np.zeros((60, 1)), np.eye(60))
    wording, domain_p = fit_wording(own, target, texts, seed=0)
    assert np.corrcoef(wording.read(own).domain_p, target)[0, 1] > 0.99
    assert domain_p == pytest.approx(np.zeros(60))
    shared = weigh(np.zeros((60, 1)), np.repeat(np.eye(2), 30, axis=0))
    wording, domain_p = fit_wording(shared, np.repeat([4.0, 6.0], 30), texts, seed=0)
    assert domain_p == pytest.approx(wording.read(shared).domain_p, abs=0.2)


def test_a_domain_that_is_not_known_leaves_the_words() -> None:
    words = np.tile(np.eye(2), (50, 1))
    domains = np.repeat(np.eye(2), 50, axis=0)
    target = 5 + words @ [-1.0, 1.0] + domains @ [-0.5, 0.5]
    wording, _ = fit_wording(weigh(words, domains), target, [f"{i}" for i in range(100)], seed=0)
    read = wording.read(weigh(np.eye(2), np.zeros((2, 2))))
    assert read.mu_p == pytest.approx([4.0, 6.0], abs=0.05)
    assert read.domain_p == pytest.approx([0.0, 0.0])


def test_readings_stay_within_what_was_seen() -> None:
    words = np.linspace(0, 1, 30)[:, None]
    seen = weigh(words, np.zeros((30, 0)))
    wording, _ = fit_wording(seen, words[:, 0], [f"{i}" for i in range(30)], seed=0)
    far = weigh(np.array([[-1e6], [1e6]]), np.zeros((2, 0)))
    assert list(wording.read(far).mu_p) == [0.0, 1.0]
