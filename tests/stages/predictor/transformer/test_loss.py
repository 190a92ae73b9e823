import math

import pytest
import torch

from stages.predictor.transformer.loss import (
    RANKING_WEIGHT,
    Target,
    loss_b,
    negative_log_likelihood,
    ranking_b,
)


def target(prompts: list[int], lengths: list[float], cut: list[bool] | None = None) -> Target:
    return Target(
        torch.tensor(prompts),
        torch.tensor(lengths),
        torch.tensor(cut or [False] * len(lengths)),
    )


def test_the_likelihood_by_hand() -> None:
    mu, log_sigma = torch.tensor([1.0, 2.0]), torch.tensor([0.0, math.log(2)])
    found = negative_log_likelihood(mu, log_sigma, target([0, 1, 1], [2.0, 2.0, 6.0]))
    assert found.tolist() == pytest.approx([0.5, math.log(2), 2 + math.log(2)])


def test_a_cut_response_says_at_least() -> None:
    cut = target([0], [3.0], [True])
    at_cut, far_above, far_below = (
        negative_log_likelihood(torch.tensor([mu]), torch.zeros(1), cut).item()
        for mu in (3.0, 30.0, -30.0)
    )
    assert at_cut == pytest.approx(math.log(2))
    assert far_above == pytest.approx(0.0, abs=1e-6)
    assert far_below == pytest.approx(33**2 / 2, rel=0.02)  # finite, where 1 - Phi is 0


def test_ranking_by_hand() -> None:
    # 5 > 4 > 3; the pair 5, 4 is the wrong way round by 1, and 3 is right against both.
    mu = torch.tensor([1.0, 2.0, 0.0])
    found = ranking_b(mu, target([0, 1, 2], [5.0, 4.0, 3.0]))
    right, wrong = (math.log1p(math.exp(-gap)) for gap in (1.0, -1.0))
    assert found.tolist() == pytest.approx([(wrong + right) / 2, math.log1p(math.exp(-2)), 0.0])


def test_close_lengths_and_cut_shorter_ones_are_not_ranked() -> None:
    mu = torch.tensor([0.0, 1.0])
    assert ranking_b(mu, target([0, 1], [5.1, 5.0])).tolist() == [0, 0]
    assert ranking_b(mu, target([0, 1], [6.0, 5.0], [False, True])).tolist() == [0, 0]
    assert ranking_b(mu, target([0, 1], [6.0, 5.0], [True, False]))[0] > 1


def test_a_prompt_counts_once_however_often_it_was_asked() -> None:
    mu, log_sigma = torch.tensor([1.0, 3.0]), torch.zeros(2)
    once = loss_b(mu, log_sigma, target([0, 1], [2.0, 5.0]))
    often = loss_b(mu, log_sigma, target([0, 0, 0, 1], [2.0, 2.0, 2.0, 5.0]))
    assert often.tolist() == pytest.approx(once.tolist())
    ranked = RANKING_WEIGHT * math.log1p(math.exp(-2.0))
    assert once.tolist() == pytest.approx([0.5, 2.0 + ranked])
