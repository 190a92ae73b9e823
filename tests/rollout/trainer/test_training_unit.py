import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollout.trainer.samples import SampleGroup
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.training_settings import TrainingSettings
from stages.tables.errors import AspError

MakeGroups = Callable[..., list[SampleGroup]]
Arrays = dict[str, np.ndarray]
SETTINGS = TrainingSettings(
    temperature=1.0, max_response_tokens=12, learning_rate=1e-3, kl_coefficient=0.1
)
REWARDS = [[1.0, 0.0, 0.5], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]


@pytest.fixture
def make_unit(model_dir: Path) -> Callable[..., Any]:
    from rollout.trainer.training_unit import TrainingUnit

    def make(**changes: Any) -> Any:
        return TrainingUnit(model_dir, replace(SETTINGS, **changes), clock=lambda: 0.0)

    return make


def saved(unit: Any, folder: Path) -> tuple[Arrays, Arrays]:
    """Weights, and AdamW's moments: after one step the first is a tenth of the gradient."""
    from safetensors.numpy import load_file

    unit.save(folder)
    return load_file(folder / "model.safetensors"), load_file(folder / "optimizer.safetensors")


def largest_difference(ours: Arrays, theirs: Arrays) -> float:
    assert ours.keys() == theirs.keys()
    return max(float(np.abs(ours[name] - theirs[name]).max()) for name in ours)


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo"])
def test_the_gradient_does_not_depend_on_micro_batches(
    loss: str, make_unit: Callable[..., Any], make_groups: MakeGroups, tmp_path: Path
) -> None:
    groups = make_groups(REWARDS)
    outcomes = []
    for tokens in (10_000, 40, 1):  # all at once, a few, each alone
        unit = make_unit(loss=loss, tokens_per_micro_batch=tokens)
        metrics = asdict(unit.train(groups))
        outcomes.append((metrics, saved(unit, tmp_path / str(tokens))[1]))
    (metrics, moments), *others = outcomes
    assert max(np.abs(m).max() for m in moments.values()) > 1e-3
    for other_metrics, other_moments in others:
        assert other_metrics == pytest.approx(metrics, abs=1e-5, rel=1e-5)
        assert largest_difference(other_moments, moments) < 1e-6


def test_metrics_by_hand(make_unit: Callable[..., Any], make_groups: MakeGroups) -> None:
    uneven, even, masked = make_groups([[1.0, 0.0], [0.5, 0.5], [0.0, 9.0]])
    metrics = make_unit().train([uneven, even, replace(masked, is_masked=True)])
    assert (metrics.version, metrics.num_groups, metrics.num_masked, metrics.num_even) == (
        1, 3, 1, 1,
    )  # fmt: skip
    assert metrics.reward_mean == 0.5
    samples = uneven.samples + even.samples
    assert metrics.num_tokens == sum(len(s.token_ids) for s in samples)
    assert metrics.kl == pytest.approx(0.0, abs=1e-6)  # still the reference
    assert metrics.clipped_share == 0.0  # still the old policy
    assert 0 < metrics.entropy < np.log(270)
    assert 0 < metrics.ratio_mean < metrics.ratio_max
    assert metrics.grad_norm > 0


def test_what_does_not_take_part_changes_nothing(
    make_unit: Callable[..., Any], make_groups: MakeGroups, tmp_path: Path
) -> None:
    """A masked group is as good as absent, and so is an even one that is skipped."""
    uneven, even, masked = make_groups([[1.0, 0.0], [0.5, 0.5], [0.0, 9.0]])
    alone, beside = make_unit(), make_unit(zero_advantage="skip")
    alone.train([uneven])
    beside.train([even, replace(masked, is_masked=True), uneven])
    ours, theirs = saved(alone, tmp_path / "a"), saved(beside, tmp_path / "b")
    assert largest_difference(ours[0], theirs[0]) == 0.0
    assert largest_difference(ours[1], theirs[1]) == 0.0


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo"])
def test_a_step_without_a_sample_is_consumed_and_moves_nothing(
    make_unit: Callable[..., Any], make_groups: MakeGroups, tmp_path: Path, loss: str
) -> None:
    """Not even by momentum and weight decay."""
    unit = make_unit(weight_decay=0.1, loss=loss)
    groups = make_groups(REWARDS)
    unit.train(groups)
    before = saved(unit, tmp_path / "before")
    metrics = unit.train([replace(group, is_masked=True) for group in groups])
    assert (metrics.version, metrics.num_masked, metrics.num_tokens) == (2, 3, 0)
    assert metrics.loss == metrics.grad_norm == metrics.reward_mean == 0.0
    assert unit.train([]).version == 3
    after = saved(unit, tmp_path / "after")
    assert largest_difference(before[0], after[0]) == largest_difference(before[1], after[1]) == 0.0


def test_training_makes_the_better_response_likelier(
    make_unit: Callable[..., Any], make_groups: MakeGroups
) -> None:
    """The same group again and again, corrected for its growing lag."""
    groups = make_groups([[1.0, 0.0]], longest=6)
    unit = make_unit(kl_coefficient=0.0, importance_cap=100.0)
    losses = [unit.train(groups).loss for _ in range(8)]
    assert losses[-1] < losses[0] - 0.1


def test_a_resumed_training_ends_as_one_that_was_never_stopped(
    make_unit: Callable[..., Any], make_groups: MakeGroups, tmp_path: Path
) -> None:
    steps = [make_groups(REWARDS, seed=seed) for seed in range(3)]
    unit = make_unit()
    unit.train(steps[0])
    unit.save(tmp_path / "checkpoint")
    through = [unit.train(groups) for groups in steps[1:]]
    other = make_unit()
    other.train(steps[2])  # what is thrown away must leave no trace
    other.load(tmp_path / "checkpoint")
    assert other.version == 1
    assert [other.train(groups) for groups in steps[1:]] == through
    ours, theirs = saved(unit, tmp_path / "a"), saved(other, tmp_path / "b")
    assert largest_difference(ours[0], theirs[0]) == largest_difference(ours[1], theirs[1]) == 0.0


def test_a_damaged_checkpoint_or_one_of_another_model_is_refused(
    make_unit: Callable[..., Any], tmp_path: Path
) -> None:
    from safetensors.numpy import load_file, save_file

    from rollout.trainer.sealed import sealed_directory

    unit = make_unit()
    with pytest.raises(AspError, match=r"nowhere: holds no readable seal\.json"):
        unit.load(tmp_path / "nowhere")
    unit.save(tmp_path / "checkpoint")
    weights = load_file(tmp_path / "checkpoint" / "model.safetensors")
    weights.popitem()
    with sealed_directory(tmp_path / "other", {"version": 3}) as folder:
        save_file(weights, folder / "model.safetensors")
    with pytest.raises(AspError, match="other: is a checkpoint of another model"):
        unit.load(tmp_path / "other")
    with (tmp_path / "checkpoint" / "optimizer.safetensors").open("ab") as file:
        file.write(b"?")
    with pytest.raises(AspError, match=r"optimizer\.safetensors: is damaged"):
        unit.load(tmp_path / "checkpoint")
    assert unit.version == 0


def test_a_snapshot_holds_nothing_else_that_lies_in_the_model_directory(
    model_dir: Path, tmp_path: Path
) -> None:
    """Such as the run itself, which would hold its snapshots, which would hold the run."""
    from rollout.trainer.training_unit import TrainingUnit

    here = tmp_path / "model"
    shutil.copytree(model_dir, here)
    (here / "additional_chat_templates").mkdir()
    (here / "additional_chat_templates/tools.jinja").write_text("{{ messages }}")
    for name in ("profile.parquet", "pytorch_model.bin", "model.onnx", "old.pth"):
        (here / name).write_bytes(b"large")
    snapshots = Snapshots(here / "run/snapshots")
    snapshots.folder.mkdir(parents=True)
    unit = TrainingUnit(here, SETTINGS)
    unit.publish(snapshots)
    held = {path.name for path in snapshots.path(0).iterdir()}
    ours = {path.name for path in model_dir.iterdir()}
    assert held == ours | {"seal.json", "additional_chat_templates"}


def test_a_snapshot_is_a_model_directory(
    make_unit: Callable[..., Any], make_groups: MakeGroups, model_dir: Path, tmp_path: Path
) -> None:
    """Loaded by transformers it scores as the Training Unit's own model does, tied weights too."""
    from safetensors.numpy import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    unit = make_unit()
    unit.train(make_groups(REWARDS))
    snapshots = Snapshots(tmp_path / "snapshots")
    snapshots.folder.mkdir()
    unit.publish(snapshots)
    snapshots.check(1)
    model = AutoModelForCausalLM.from_pretrained(snapshots.path(1))
    weights, _ = saved(unit, tmp_path / "checkpoint")
    loaded = {name: values.detach().numpy() for name, values in model.named_parameters()}
    assert largest_difference(loaded, weights) == 0.0
    assert largest_difference(weights, load_file(model_dir / "model.safetensors")) > 1e-4
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.config.architectures == ["Qwen2ForCausalLM"]
    assert AutoTokenizer.from_pretrained(snapshots.path(1)).eos_token == "<end>"


def test_a_gradient_that_is_no_number_leaves_the_weights(
    make_unit: Callable[..., Any], make_groups: MakeGroups, tmp_path: Path
) -> None:
    unit = make_unit()
    before, _ = saved(unit, tmp_path / "before")
    (group,) = make_groups([[1.0, 0.0]])
    broken = tuple(replace(s, logprobs_t=s.logprobs_t * np.float32("nan")) for s in group.samples)
    with pytest.raises(AspError, match=r"^training step 0: the gradient is nan; "):
        unit.train([replace(group, samples=broken)])
    assert unit.version == 0
    assert largest_difference(saved(unit, tmp_path / "after")[0], before) == 0.0
    unit.train([group])
    assert unit.version == 1


def test_a_directory_without_a_model_is_a_users_mistake(tmp_path: Path) -> None:
    from rollout.trainer.training_unit import TrainingUnit

    with pytest.raises(AspError, match=r"^--model .*: cannot be loaded as a language model"):
        TrainingUnit(tmp_path, SETTINGS)
