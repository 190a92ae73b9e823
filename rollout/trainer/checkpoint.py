"""How does training go on where it stopped?

A sealed directory: `model.safetensors` in float32, AdamW's moments of every weight in
`optimizer.safetensors`, torch's random state in `random.safetensors`, and the policy version in
the seal. Nothing is pickled, and tensors are whole, so any number of processes can go on from it.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rollout.trainer.devices import Devices, like, named_weights, put, whole
from rollout.trainer.sealed import check_seal, sealed_directory
from stages.tables.errors import AspError

MODEL, OPTIMIZER, RANDOM = "model.safetensors", "optimizer.safetensors", "random.safetensors"


def save(
    path: Path, model: Any, optimizer: torch.optim.Optimizer, version: int, devices: Devices
) -> None:
    """Write a checkpoint; every process takes part, the first one writes.

    Raises:
        AspError: It can't be written; nothing is left, and what was there stays.
    """
    files: dict[str, dict[str, Tensor]] = {
        MODEL: {}, OPTIMIZER: {}, RANDOM: {"torch": torch.get_rng_state()}
    }  # fmt: skip
    moments = [
        (f"{name}/{moment}", values)
        for name, weight in model.named_parameters()
        for moment, values in optimizer.state.get(weight, {}).items()
    ]
    for file, tensors in ((MODEL, named_weights(model)), (OPTIMIZER, iter(moments))):
        for name, values in tensors:
            gathered = whole(values)
            if devices.is_first:
                files[file][name] = gathered
    if devices.is_first:
        with sealed_directory(path, {"version": version}) as folder:
            for file, content in files.items():
                save_file(content, folder / file)
    devices.wait()


def load(path: Path, model: Any, optimizer: torch.optim.Optimizer) -> int:
    """Put a checkpoint into a model and its optimiser; return its version.

    Raises:
        AspError: It is damaged, or of another model; the model is then as it was.
    """
    version = check_seal(path)["version"]
    weights = load_file(path / MODEL)
    targets = dict(named_weights(model))
    if {name: values.shape for name, values in weights.items()} != {
        name: values.shape for name, values in targets.items()
    }:
        raise AspError(f"{path}: is a checkpoint of another model; give its --model")
    with torch.no_grad():
        for name, target in targets.items():
            put(target, weights[name])
    moments: dict[str, dict[str, Tensor]] = {}
    for key, values in load_file(path / OPTIMIZER).items():
        name, moment = key.rsplit("/", 1)
        moments.setdefault(name, {})[moment] = values
    state = {
        place: {
            moment: like(weight, values) if values.shape == weight.shape else values
            for moment, values in moments[name].items()
        }
        for place, (name, weight) in enumerate(model.named_parameters())
        if name in moments
    }
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    torch.set_rng_state(load_file(path / RANDOM)["torch"])
    return int(version)
