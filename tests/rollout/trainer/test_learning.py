"""Engine and Training Unit in turns: is what they hand each other right, and is it learned from?"""

from pathlib import Path

import numpy as np
import pytest

from rollout.trainer.samples import Draft, Sample, SampleGroup
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.training_settings import TrainingSettings

NUM_PROMPTS, NUM_SAMPLES, CAP = 4, 8, 6


def reward(token_ids: list[int]) -> float:
    """The share of tokens in the upper half of the vocabulary."""
    return float(np.mean(np.array(token_ids) >= 135))


def group_of(number: int, drafts: list[Draft], version: int) -> SampleGroup:
    samples = [
        Sample(
            np.array(d.prompt_ids), np.array(d.token_ids), np.array(d.logprobs, np.float32),
            d.end or "length", reward(d.token_ids),
        )
        for d in drafts
    ]  # fmt: skip
    return SampleGroup(number, number, tuple(samples), lag=version - min(drafts[0].versions))


def test_reward_rises_at_a_lag_of_up_to_two_steps(model_dir: Path, tmp_path: Path) -> None:
    """On fresh weights the ratio of training to sampling is 1 for every token; with lag, not."""
    from rollout.trainer.engines.transformers import TransformersEngine
    from rollout.trainer.training_unit import TrainingUnit

    settings = TrainingSettings(temperature=1.0, learning_rate=1e-2, tokens_per_micro_batch=200)
    unit = TrainingUnit(model_dir, settings)
    engine = TransformersEngine(NUM_PROMPTS * NUM_SAMPLES, 1.0, seed=0)
    snapshots = Snapshots(tmp_path)
    steps = []
    for step in range(15):
        if step % 3 == 0:
            unit.publish(snapshots)
            engine.load(unit.version, snapshots.path(unit.version))
        drafts = [
            Draft(prompt, sample, (2 + prompt, 7), CAP)
            for prompt in range(NUM_PROMPTS)
            for sample in range(NUM_SAMPLES)
        ]
        engine.add(drafts)
        engine.decode(CAP)
        groups = [
            group_of(prompt, drafts[prompt * NUM_SAMPLES :][:NUM_SAMPLES], step)
            for prompt in range(NUM_PROMPTS)
        ]
        steps.append((groups[0].lag, unit.train(groups)))
    assert max(lag for lag, _ in steps) == 2
    for lag, metrics in steps:
        if lag == 0:
            assert metrics.ratio_mean == pytest.approx(1.0, abs=1e-4)
            assert metrics.ratio_max == pytest.approx(1.0, abs=1e-3)
        else:
            assert metrics.ratio_max > 1.01
    rewards = [metrics.reward_mean for _, metrics in steps]
    print(rewards)
    assert np.mean(rewards[-3:]) > np.mean(rewards[:3]) + 0.2
