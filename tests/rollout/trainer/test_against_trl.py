"""The same batch through TRL's GRPOTrainer: are losses, gradients and weights the same?

TRL judges the same rewards, scores the same tokens with its own code, and computes its own loss;
two updates of AdamW on one batch, so that ratios move and the clip acts. All in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollout.trainer.samples import SampleGroup
from rollout.trainer.training_settings import TrainingSettings

pytest.importorskip("trl")

MakeGroups = Callable[..., list[SampleGroup]]
REWARDS = [[1.0, 0.0, 0.5, 0.0], [0.2, 0.2, 0.2, 0.2], [3.0, -1.0, 0.0, 2.0]]
COMMON = TrainingSettings(
    temperature=0.8, max_response_tokens=12, kl_coefficient=0.05, importance_cap=1.5,
    learning_rate=1e-3, max_grad_norm=1e9, updates_per_step=2, tokens_per_micro_batch=40,
)  # fmt: skip
CORRECTION = {"truncated": "token_truncate", "decoupled": "token_mask"}


@dataclass(frozen=True)
class Outcome:
    """Of a step of two updates."""

    loss: float
    kl: float
    clipped_share: float
    moments: dict[str, np.ndarray]  # AdamW's: 0.09 first gradient + 0.1 second gradient
    weights: dict[str, np.ndarray]


def by_trl(
    model_dir: Path, groups: list[SampleGroup], settings: TrainingSettings, output: Path
) -> Outcome:
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    samples = [sample for group in groups for sample in group.samples]

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        return {
            "prompt_ids": [s.prompt_ids.tolist() for s in samples],
            "completion_ids": [s.token_ids.tolist() for s in samples],
            "logprobs": [s.logprobs_t.tolist() for s in samples],
        }

    trainer = GRPOTrainer(
        model=str(model_dir),
        reward_funcs=lambda completions, **_: [s.reward for s in samples],
        args=GRPOConfig(
            loss_type=settings.loss,
            scale_rewards="group" if settings.scales_advantages else "none",
            beta=settings.kl_coefficient,
            use_bias_correction_kl=False,
            epsilon=settings.clip_low,
            epsilon_high=settings.upper_clip,
            temperature=settings.temperature,
            max_completion_length=settings.max_response_tokens,
            num_generations=4,
            per_device_train_batch_size=len(samples),
            per_device_eval_batch_size=len(samples),
            use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none",
            output_dir=str(output),
        ),
        train_dataset=Dataset.from_list([{"prompt": "x"}] * 4),
        processing_class=AutoTokenizer.from_pretrained(model_dir),
        rollout_func=rollout,
    )  # fmt: skip
    model = trainer.model.eval()
    optimizer = torch.optim.AdamW(model.parameters(), settings.learning_rate, weight_decay=0.0)
    inputs = trainer._generate_and_score_completions([{"prompt": "x"}] * len(samples))
    mask = inputs["completion_mask"]
    with torch.no_grad():
        old, _, _ = trainer._get_per_token_logps_and_entropies(
            model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
            torch.cat([inputs["prompt_mask"], mask], 1),
            mask.shape[1],
        )
    inputs["old_per_token_logps"] = old
    if settings.lag_correction != "none":
        # TRL makes these weights where vLLM generated; its formula, on the recorded tokens.
        trainer.use_vllm = True
        assert trainer.vllm_importance_sampling_correction
        ratio = ((old - inputs["sampling_per_token_logps"]) * mask).exp()
        cap = settings.importance_cap
        inputs["importance_sampling_ratio"] = {
            "token_truncate": ratio.clamp(max=cap),
            "token_mask": ratio.masked_fill(ratio > cap, 0.0),
        }[CORRECTION[settings.lag_correction]]
    losses = []
    for _ in range(settings.updates_per_step):
        loss = trainer.compute_loss(model, inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    metrics = trainer._metrics["eval"]
    return Outcome(
        float(np.mean(losses)),
        float(np.mean(metrics["kl"])),
        float(np.mean(metrics["clip_ratio/region_mean"])),
        {name: optimizer.state[p]["exp_avg"].numpy() for name, p in model.named_parameters()},
        {name: p.detach().numpy() for name, p in model.named_parameters()},
    )


def by_unit(
    model_dir: Path, groups: list[SampleGroup], settings: TrainingSettings, output: Path
) -> Outcome:
    from safetensors.numpy import load_file

    from rollout.trainer.training_unit import TrainingUnit

    unit = TrainingUnit(model_dir, settings)
    metrics = unit.train(groups)
    unit.save(output / "checkpoint")
    moments = load_file(output / "checkpoint" / "optimizer.safetensors")
    return Outcome(
        metrics.loss,
        metrics.kl,
        metrics.clipped_share,
        {n.removesuffix("/exp_avg"): m for n, m in moments.items() if n.endswith("/exp_avg")},
        load_file(output / "checkpoint" / "model.safetensors"),
    )


@pytest.mark.parametrize(
    ("loss", "correction"),
    [("grpo", "truncated"), ("dr_grpo", "decoupled"), ("dapo", "truncated"), ("grpo", "none")],
)
def test_losses_gradients_and_weights_agree(
    loss: Any, correction: Any, model_dir: Path, make_groups: MakeGroups, tmp_path: Path
) -> None:
    settings = replace(COMMON, loss=loss, lag_correction=correction)
    groups = make_groups(REWARDS)
    theirs = by_trl(model_dir, groups, settings, tmp_path)
    ours = by_unit(model_dir, groups, settings, tmp_path)
    assert theirs.clipped_share > 0.01 and theirs.kl > 0.001
    assert ours.loss == pytest.approx(theirs.loss, abs=1e-5)
    assert ours.kl == pytest.approx(theirs.kl, abs=1e-5)
    assert ours.clipped_share == pytest.approx(theirs.clipped_share, abs=1e-5)
    assert ours.moments.keys() == theirs.moments.keys() == theirs.weights.keys()
    for name, moment in theirs.moments.items():
        assert np.abs(moment).max() > 1e-4, name
        assert np.abs(ours.moments[name] - moment).max() < 1e-6, name
        assert np.abs(ours.weights[name] - theirs.weights[name]).max() < 1e-4, name
