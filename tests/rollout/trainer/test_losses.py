"""The loss of single tokens, by hand and by its laws."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.trainer.training_settings import TrainingSettings

GRPO = TrainingSettings(temperature=1.0)
LOGPROB = st.floats(-8, -0.01)


def one_token(
    ratio: float, advantage: float, lag_ratio: float = 1.0, reference: float | None = None,
    **changes: Any,
) -> tuple[float, float]:  # fmt: skip
    """Loss and gradient of a token with pi/pi_old, pi_old/mu and log pi_ref - log pi."""
    import torch

    from rollout.trainer.losses import token_losses

    old = -2.0
    logprob = torch.tensor([old + math.log(ratio)], requires_grad=True)
    losses = token_losses(
        logprob,
        torch.tensor([old]),
        torch.tensor([old - math.log(lag_ratio)]),
        None if reference is None else logprob.detach() + reference,
        torch.tensor([advantage]),
        replace(GRPO, **changes),
    )
    losses.loss_t.sum().backward()
    assert logprob.grad is not None
    return float(losses.loss_t.detach()), float(logprob.grad)


@pytest.mark.parametrize(
    ("ratio", "advantage", "changes", "loss", "gradient"),
    [
        (1.1, 1.0, {}, -1.1, -1.1),  # inside: r A, and its gradient r A
        (1.5, 2.0, {}, -2.4, 0.0),  # above 1.2: no more to gain
        (1.5, -2.0, {}, 3.0, 3.0),  # but a bad token may always be pushed down
        (0.5, -1.0, {}, 0.8, 0.0),  # below 0.8: pushed far enough
        (0.5, 1.0, {}, -0.5, -0.5),
        (1.25, 1.0, {}, -1.2, 0.0),
        (1.25, 1.0, {"loss": "dapo"}, -1.25, -1.25),  # its upper clip is 1.28
        (1.5, 1.0, {"clip_high": 0.4}, -1.4, 0.0),
    ],
)
def test_clip_by_hand(
    ratio: float, advantage: float, changes: dict[str, Any], loss: float, gradient: float
) -> None:
    assert one_token(ratio, advantage, **changes) == pytest.approx((loss, gradient), rel=1e-5)


@pytest.mark.parametrize(
    ("correction", "lag_ratio", "weight"),
    [
        ("truncated", 0.5, 0.5), ("truncated", 3.0, 2.0),
        ("decoupled", 0.5, 0.5), ("decoupled", 3.0, 0.0),
        ("none", 0.5, 1.0), ("none", 3.0, 1.0),
    ],
)  # fmt: skip
def test_lag_corrections_by_hand(correction: str, lag_ratio: float, weight: float) -> None:
    loss, gradient = one_token(1.1, 1.0, lag_ratio, lag_correction=correction, importance_cap=2.0)
    assert (loss, gradient) == pytest.approx((-1.1 * weight, -1.1 * weight), rel=1e-5)


def test_kl_by_hand_is_not_weighed_by_the_lag() -> None:
    """d = log 2: k3 = 2 - log 2 - 1, and its gradient is 1 - 2."""
    loss, gradient = one_token(1.0, 0.0, 3.0, reference=math.log(2), kl_coefficient=0.1)
    assert (loss, gradient) == pytest.approx((0.1 * (1 - math.log(2)), -0.1), rel=1e-5)


@settings(max_examples=50)
@given(LOGPROB, LOGPROB, LOGPROB, LOGPROB, st.floats(-3, 3), st.sampled_from([0.5, 1.0, 4.0]))
def test_weights_and_divergences_keep_their_bounds(
    logprob: float, old: float, behaviour: float, reference: float, advantage: float, cap: float
) -> None:
    import torch

    from rollout.trainer.losses import token_losses

    arrays = [torch.tensor([value]) for value in (logprob, old, behaviour, reference, advantage)]
    settings = replace(GRPO, importance_cap=cap)
    losses = token_losses(*arrays, settings)
    none = token_losses(*arrays, replace(settings, lag_correction="none"))
    assert float(losses.kl_t) >= -1e-5
    assert abs(float(losses.loss_t)) <= cap * abs(float(none.loss_t)) + 1e-5
    assert bool(losses.is_capped_t) == (float(losses.ratio_t) > cap)
