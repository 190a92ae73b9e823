from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.trainer.advantages import advantages, judge
from rollout.trainer.samples import SampleGroup
from rollout.trainer.training_settings import TrainingSettings
from stages.tables.errors import AspError

MakeGroups = Callable[..., list[SampleGroup]]
GRPO = TrainingSettings(temperature=1.0)


def test_advantages_by_hand() -> None:
    reward_s = np.array([1.0, 0.0, 0.0, 0.0])  # mean 1/4, standard deviation 1/2
    expected_s = np.array([0.75, -0.25, -0.25, -0.25])
    assert advantages(reward_s, False) == pytest.approx(expected_s)
    assert advantages(reward_s, True) == pytest.approx(expected_s / 0.5001)


@settings(max_examples=50)
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=9), st.floats(-5, 5), st.booleans())
def test_advantages_sum_to_nothing_and_forget_the_level(
    rewards: list[float], level: float, is_scaled: bool
) -> None:
    advantage_s = advantages(np.array(rewards), is_scaled)
    assert advantage_s.sum() == pytest.approx(0.0, abs=1e-6)
    raised_s = advantages(np.array(rewards) + level, is_scaled)
    assert raised_s == pytest.approx(advantage_s, abs=1e-6)


@pytest.mark.parametrize("is_scaled", [True, False])
@pytest.mark.parametrize("rewards", [[0.1] * 3, [7.0]])
def test_equal_rewards_have_no_advantage_at_all(rewards: list[float], is_scaled: bool) -> None:
    assert not advantages(np.array(rewards), is_scaled).any()


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo"])
def test_weights_are_those_of_the_formulas(loss: str, make_groups: MakeGroups) -> None:
    settings = replace(GRPO, loss=loss, max_response_tokens=16)
    judged = judge(make_groups([[1.0, 0.0], [0.5, 0.25]]), settings)
    tokens = np.array([len(j.sample.token_ids) for j in judged])
    weights = np.array([j.token_weight for j in judged])
    expected = {"grpo": 1 / (4 * tokens), "dr_grpo": 1 / 64, "dapo": 1 / tokens.sum()}
    assert len(set(tokens)) > 1
    assert weights == pytest.approx(np.broadcast_to(expected[loss], 4))
    if loss != "dr_grpo":
        assert (weights * tokens).sum() == pytest.approx(1.0)


def test_even_groups_are_kept_or_skipped_and_masked_ones_never_take_part(
    make_groups: MakeGroups,
) -> None:
    uneven, even, masked = make_groups([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    groups = [uneven, even, replace(masked, is_masked=True)]
    kept = judge(groups, GRPO)
    assert [j.sample for j in kept] == [*uneven.samples, *even.samples]
    assert [j.advantage for j in kept[2:]] == [0.0, 0.0]
    skipped = judge(groups, replace(GRPO, zero_advantage="skip"))
    alone = judge([uneven], GRPO)
    assert [(j.sample, j.advantage, j.token_weight) for j in skipped] == [
        (j.sample, j.advantage, j.token_weight) for j in alone
    ]


def test_a_reward_must_be_a_number(make_groups: MakeGroups) -> None:
    with pytest.raises(AspError, match=r"^prompt 1: a reward is nan; "):
        judge(make_groups([[1.0, 0.0], [0.0, float("nan")]]), GRPO)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "ppo"}, "loss is 'ppo'; it is one of grpo, dr_grpo, dapo"),
        ({"temperature": 0.0}, "temperature is 0.0: it must be a number above 0"),
        ({"learning_rate": float("inf")}, "learning_rate is inf: it must be a number above 0"),
        ({"kl_coefficient": -1.0}, "kl_coefficient is -1.0: it must be a number not below 0"),
        ({"clip_low": 1.0}, "clip_low is 1.0: it must lie between 0 and 1"),
        ({"loss": "dr_grpo"}, "loss dr_grpo divides by max_response_tokens, which is not given"),
    ],
)
def test_settings_that_cannot_be_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(AspError) as refused:
        replace(GRPO, **change)
    assert str(refused.value) == message
