"""What still runs after so many tokens: certain lengths by hand, uncertain ones by simulation."""

import numpy as np
import pytest

from stages.lengths.distribution import LengthDistribution
from stages.partition import unfinished as module
from stages.partition.unfinished import unfinished


def test_certain_lengths_end_where_they_should() -> None:
    mu = np.log([10.0, 100.0, 1000.0])
    curves = unfinished(LengthDistribution.of(mu, 0.0, 1000.0), 2, np.array([2, 3]))
    at = np.searchsorted(curves.t_q, [5, 50, 500])
    assert curves.responses_bq[:, at] == pytest.approx(np.array([[4, 2, 0], [2, 2, 2]]))
    assert curves.any_bq[:, at] == pytest.approx(np.array([[1, 1, 0], [1, 1, 1]]))
    assert curves.groups_q[at] == pytest.approx(np.array([3, 2, 1]))


def test_integrals_are_the_expectations_of_the_lengths() -> None:
    rng = np.random.default_rng(0)
    mu, sigma = np.sort(rng.normal(6, 1, 50)), rng.uniform(0.3, 1.5, 50)
    lengths = LengthDistribution.of(mu, sigma, 4096.0, 0.8 * sigma, nu_above=5.0)
    curves = unfinished(lengths, 4, np.array([8, 20, 50]))
    tokens_b = curves.up_to(curves.responses_bq)[:, -1]
    expected = 4 * lengths.expected_tokens()
    assert tokens_b == pytest.approx(np.add.reduceat(expected, [0, 8, 20]), rel=0.005)
    longest_b = curves.up_to(curves.any_bq)[:, -1]
    exact = lengths.expected_longest_of_sets(4, np.array([0, 8, 20, 50]))
    assert longest_b == pytest.approx(exact, rel=0.005)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    lengths = LengthDistribution.of(rng.normal(5, 1, 97), rng.uniform(0, 1, 97), 2048.0)
    ends = np.append(np.arange(8, 97, 8), 97)
    whole = unfinished(lengths, 3, ends)
    monkeypatch.setattr(module, "BLOCK", 10)
    parts = unfinished(lengths, 3, ends)
    assert np.allclose(whole.any_bq, parts.any_bq)
    assert np.allclose(whole.responses_bq, parts.responses_bq)
    assert np.allclose(whole.groups_q, parts.groups_q)
