"""What was a response worth beside its siblings?

GRPO (Shao et al. 2024, arXiv 2402.03300, section 4.1.2): A_i = (r_i - mean r) / std r over the n
samples of one prompt. Dr. GRPO (Liu et al. 2025, arXiv 2503.20783): A_i = r_i - mean r, since the
division favours prompts that are nearly always or nearly never solved.

Arrays end in an axis legend: _s samples of a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rollout.trainer.samples import Sample, SampleGroup
from rollout.trainer.training_settings import TrainingSettings
from stages.tables.errors import AspError

_EPSILON = 1e-4  # added to the standard deviation, as TRL does


@dataclass(frozen=True, eq=False)
class Judged:
    """A sample that takes part in the loss."""

    sample: Sample
    advantage: float  # of every one of its tokens
    token_weight: float  # of each of its tokens in the loss of the step; see `weigh`


def advantages(reward_s: np.ndarray, is_scaled: bool) -> np.ndarray:
    """Rewards less their mean; over their standard deviation (n - 1 degrees) if scaled.

    Exactly 0 where all are equal, so also for a group of one.
    """
    if (reward_s == reward_s[0]).all():
        return np.zeros(len(reward_s))
    centred_s: np.ndarray = reward_s - reward_s.mean()
    return centred_s / (reward_s.std(ddof=1) + _EPSILON) if is_scaled else centred_s


def judge(groups: Sequence[SampleGroup], settings: TrainingSettings) -> list[Judged]:
    """The samples of a step that take part in its loss, with their share in it.

    Masked groups never take part, groups of equal rewards not where `zero_advantage` is `skip`:
    they are consumed, and count in no denominator. Kept, those pull no way but dilute the
    gradient, as they do in the papers' formulas, and feel the KL term.

    Raises:
        AspError: A reward is not a finite number.
    """
    judged: list[tuple[Sample, float]] = []
    for group in groups:
        if group.is_masked:
            continue
        reward_s = np.array([sample.reward for sample in group.samples], dtype=np.float64)
        if not np.isfinite(reward_s).all():
            raise AspError(
                f"prompt {group.prompt_id}: a reward is {reward_s[~np.isfinite(reward_s)][0]}; "
                "a reward must be a finite number"
            )
        advantage_s = advantages(reward_s, settings.scales_advantages)
        if advantage_s.any() or settings.zero_advantage == "keep":
            judged += zip(group.samples, advantage_s.tolist(), strict=True)
    weights = weigh([len(sample.token_ids) for sample, _ in judged], settings)
    return [Judged(*pair, weight) for pair, weight in zip(judged, weights, strict=True)]


def weigh(num_tokens: Sequence[int], settings: TrainingSettings) -> list[float]:
    """What a token of each response counts in the loss of the whole step.

    Known before the first micro-batch is made, so the loss is a plain sum over tokens, and how
    they are cut into micro-batches, or shared among devices, does not change it. N samples with
    T_i tokens each:

    - grpo: 1 / (N T_i), a mean over responses of means over tokens;
    - dr_grpo: 1 / (N cap), so a token counts the same in a short response and in a long one;
    - dapo (Yu et al. 2025, arXiv 2503.14476, equation 8): 1 / sum of T_i.

    N and the T_i are those of this step, so steps of different size have losses of one scale.
    """
    if settings.loss == "grpo":
        return [1 / (len(num_tokens) * tokens) for tokens in num_tokens]
    if settings.loss == "dr_grpo":
        assert settings.max_response_tokens is not None
        return [1 / (len(num_tokens) * settings.max_response_tokens) for _ in num_tokens]
    return [1 / sum(num_tokens) for _ in num_tokens]
