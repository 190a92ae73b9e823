"""One process against two, started by torchrun, on a CPU with gloo."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollout.trainer.samples import SampleGroup
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.training_settings import TrainingSettings

MakeGroups = Callable[..., list[SampleGroup]]
SETTINGS = TrainingSettings(
    temperature=1.0, loss="dapo", learning_rate=1e-3, kl_coefficient=0.1, max_grad_norm=0.5,
    updates_per_step=2, tokens_per_micro_batch=40,
)  # fmt: skip
REWARDS = [[1.0, 0.0, 0.5], [1.0, 1.0, 0.0]]

TRAIN = """
import json, pickle, sys
from dataclasses import asdict
from pathlib import Path
import torch
from rollout.trainer.snapshots import Snapshots
from rollout.trainer.training_unit import TrainingUnit
torch.set_num_threads(1)
folder = Path(sys.argv[1])
model_dir, settings, steps = pickle.loads((folder / "given").read_bytes())
unit = TrainingUnit(model_dir, settings, clock=lambda: 0.0)
metrics = [asdict(unit.train(groups)) for groups in steps[:2]]
unit.save(folder / "first")
unit.train(steps[2])
unit.load(folder / "first")
metrics.append(asdict(unit.train(steps[2])))
unit.save(folder / "last")
unit.publish(Snapshots(folder))
(folder / f"metrics{torch.distributed.get_rank()}").write_text(json.dumps(metrics))
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_train_as_one_does(
    model_dir: Path, make_groups: MakeGroups, tmp_path: Path
) -> None:
    """Metrics, weights and moments, over a checkpoint; and one goes on where two stopped.

    Micro-batches are odd in number, so one process repeats one.
    """
    import pickle

    from safetensors.numpy import load_file
    from transformers import AutoModelForCausalLM

    from rollout.trainer.policy import cut_by_tokens
    from rollout.trainer.training_unit import TrainingUnit

    steps = [make_groups(REWARDS, seed=seed) for seed in range(3)]
    widths = [len(s.prompt_ids) + len(s.token_ids) for g in steps[0] for s in g.samples]
    assert len(cut_by_tokens(widths, SETTINGS.tokens_per_micro_batch)) % 2 == 1
    (tmp_path / "given").write_bytes(pickle.dumps((model_dir, SETTINGS, steps)))
    (tmp_path / "train.py").write_text(TRAIN)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *launch, tmp_path / "train.py", tmp_path],
        capture_output=True, text=True, check=False, timeout=300,
        env=os.environ | {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    unit = TrainingUnit(model_dir, SETTINGS, clock=lambda: 0.0)
    metrics = [asdict(unit.train(groups)) for groups in steps]
    unit.save(tmp_path / "alone")
    for rank in range(2):
        for theirs, ours in zip(
            json.loads((tmp_path / f"metrics{rank}").read_text()), metrics, strict=True
        ):
            assert theirs == pytest.approx(ours, abs=1e-4, rel=1e-4)
    for file in ("model.safetensors", "optimizer.safetensors"):
        theirs, ours = (load_file(tmp_path / name / file) for name in ("last", "alone"))
        assert theirs.keys() == ours.keys()
        for name, values in ours.items():
            assert np.abs(theirs[name] - values).max() < 1e-4, name

    resumed = TrainingUnit(model_dir, SETTINGS, clock=lambda: 0.0)
    resumed.load(tmp_path / "first")
    assert asdict(resumed.train(steps[2])) == pytest.approx(metrics[2], abs=1e-4, rel=1e-4)
    snapshots = Snapshots(tmp_path)
    snapshots.check(3)
    model: Any = AutoModelForCausalLM.from_pretrained(snapshots.path(3))
    assert model.config.architectures == ["Qwen2ForCausalLM"]
    last = load_file(tmp_path / "last" / "model.safetensors")
    for name, values in model.named_parameters():
        assert (values.detach().numpy() == last[name]).all(), name
