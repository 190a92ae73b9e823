from dataclasses import replace

import numpy as np
import pytest

from stages.lengths.distribution import LengthDistribution
from stages.predictor.backend import Observations
from stages.predictor.chance import ChanceCurve
from stages.predictor.tail import TailCurve, up_to_what_is_known, with_tail

NUM, SIGMA = 3000, 0.5


def drawn(share: float, samples: int) -> tuple[LengthDistribution, Observations]:
    """Log-normal lengths, of whose spread `share` is chance between samples."""
    rng = np.random.default_rng(0)
    shared = np.sqrt(1 - share**2) * rng.standard_normal((NUM, 1))
    z = shared + share * rng.standard_normal((NUM, samples))
    mu = rng.normal(5, 1, NUM)
    prompt = np.repeat(np.arange(NUM), samples)
    seen = Observations(
        [str(p) for p in range(NUM)], prompt, (mu[:, None] + SIGMA * z).ravel(),
        np.zeros(NUM * samples, dtype=bool),
    )  # fmt: skip
    return LengthDistribution.of(mu, SIGMA, np.inf), seen


@pytest.mark.parametrize("share", [0.4, 0.9])
def test_the_share_of_chance_comes_back(share: float) -> None:
    curve = ChanceCurve.trace(*drawn(share, 3))
    assert curve.share(np.ones(NUM, dtype=bool)) == pytest.approx(share, abs=0.06)
    assert curve.share(np.arange(NUM) < NUM // 2) == pytest.approx(share, abs=0.09)


def test_prompts_asked_once_tell_nothing_of_chance() -> None:
    assert ChanceCurve.trace(*drawn(0.5, 1)).share(np.ones(NUM, dtype=bool)) is None


def test_too_heavy_a_tail_is_made_lighter_until_the_mean_is_right() -> None:
    lengths, seen = drawn(1.0, 1)
    heavy = replace(lengths, nu_above_p=np.full(NUM, 4.0))
    factor = TailCurve.trace(heavy, seen).factor(np.ones(NUM, dtype=bool))
    assert factor < 0.8
    bounded = up_to_what_is_known(with_tail(heavy, factor), seen)
    observed = np.exp(seen.log_tokens_s).sum()
    before = up_to_what_is_known(heavy, seen).expected_tokens().sum() / observed - 1
    assert abs(bounded.expected_tokens().sum() / observed - 1) < abs(before) / 2


def test_observation_ends_at_a_prompts_own_cut_or_the_longest_of_all() -> None:
    seen = Observations(
        ["a", "b"], np.array([0, 0, 1]), np.log([5.0, 7.0, 90.0]), np.array([False, True, False])
    )
    bounded = up_to_what_is_known(LengthDistribution.of([1.0, 1.0], 1.0, np.inf), seen)
    assert bounded.cap_p == pytest.approx([7, 90])
