"""Which costs follow from the device and the model that a cluster file names?

    device = "H100"
    model = "Qwen3-30B-A3B"  # or the path of a config.json, from the file's folder

    [roofline]
    host_seconds = 0.01

What follows stands in wherever the file gives no number of its own, and is told apart from that.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rollout.simulator.keys import Keys
from stages.costs.devices import DEVICES
from stages.costs.models import MODELS, Model, parse_config
from stages.costs.roofline import WEIGHT_BYTES, Actor, Efficiency
from stages.tables.errors import shorten
from stages.tables.io import read_bytes
from stages.tables.provenance import Input

LEAST_SHARE = 0.001  # of a peak
LARGEST_CONFIG_BYTES = 2**24  # a file of weights is not read to its end to say that it is none


class Derivation:
    """Numbers of the file that follow from device and model, and those given in their place."""

    def __init__(self, actor: Actor | None, roofline: Keys, inputs: tuple[Input, ...]) -> None:
        self.actor = actor  # None: the file names no device, so nothing follows
        self.inputs = inputs
        self._roofline = roofline
        self._derived: dict[str, float] = {}
        self._given: list[str] = []

    def default(self, table: Keys, key: str) -> Any:
        """For a key that is a property of `Actor` under the same name; `...`: it must be given."""
        if self.actor is None:
            return ...
        return self._note(table.name(key), getattr(self.actor, key), table.has(key))

    def slots(self, generation: Keys) -> int:
        """As given, or as many as have room for `context_tokens` each beside the weights."""
        context = generation.whole("context_tokens", 1, None) if self.actor else None
        if self.actor is None or context is None:
            return int(generation.whole("slots", 1))
        room = self.actor.kv_tokens // context
        is_given = generation.has("slots")
        slots = int(generation.whole("slots", 1, room))
        if not 1 <= slots <= room:
            generation.refuse(
                "context_tokens", context,
                f"at most {self.actor.kv_tokens // max(slots, 1):,}: an actor has memory for "
                f"{self.actor.kv_tokens:,} tokens beside the weights, and {max(slots, 1)} slots",
            )  # fmt: skip
        self._note(generation.name("slots"), room, is_given)
        return slots

    def coefficients(self, name: str, given: Mapping[str, Any], slots: int) -> dict[str, Any]:
        """Those of the cost model: the given ones, and the roofline's for the others."""
        if self.actor is None:
            return dict(given)
        host = 0.0 if "step_seconds" in given else self._roofline.seconds("host_seconds")
        derived = asdict(self.actor.cost_model(slots, host))
        for key, value in derived.items():
            self._note(f"{name}.{key}", value, key in given)
        return derived | dict(given)

    def stand_back(self, name: str) -> None:
        """The file gives what makes all coefficients."""
        if self.actor is not None:
            self._given.append(name)

    def finish(self) -> None:
        """Refuse unknown keys of the table [roofline]."""
        if self._roofline.has("host_seconds"):  # of no use where step_seconds is given
            self._roofline.seconds("host_seconds")
        self._roofline.finish()

    def in_words(self) -> list[str]:
        """Lines: what was derived, of what, and what was given in its place; none without."""
        if self.actor is None:
            return []
        numbers = ", ".join(f"{name} {value:.3g}" for name, value in self._derived.items())
        what = f"{self.actor.model.name} on {self.actor.num_devices} x {self.actor.device.name}"
        return [
            f"derived by a roofline of {what}, not measured: {numbers or 'nothing'}",
            f"given in place of it: {', '.join(self._given) or 'nothing'}",
        ]

    def _note(self, name: str, value: float, is_given: bool) -> float:
        if is_given:
            self._given.append(name)
        else:
            self._derived[name] = value
        return value


def read_derivation(top: Keys, generation: Keys, num_devices: int, folder: Path) -> Derivation:
    """Take the keys of device, model and roofline; the model runs on so many devices an actor.

    Raises:
        AspError: One is unknown or stands alone, or the weights do not fit into an actor's memory.
    """
    device = top.choice("device", tuple(DEVICES), None)
    wanted = f"one of {', '.join(MODELS)}, or the path of a config.json"
    name = top.take("model", wanted, None)
    roofline = top.table("roofline", is_needed=False)
    if device is None:
        if name is not None:
            top.refuse("model", name, "a device beside it, or leave it out")
        return Derivation(None, roofline, ())
    model, inputs = _model(top, name, wanted, folder)
    shares = {
        part.name: roofline.number(part.name, LEAST_SHARE, 1, getattr(Efficiency, part.name))
        for part in fields(Efficiency)
    }
    width = WEIGHT_BYTES[roofline.choice("dtype", tuple(WEIGHT_BYTES), "bfloat16")]
    actor = Actor(DEVICES[device], model, num_devices, width, Efficiency(**shares))
    if actor.kv_tokens <= 0:
        memory = actor.efficiency.memory * actor.device.memory.value
        generation.refuse(
            "devices_per_actor", num_devices,
            f"more: the weights of {model.name} take {actor.weights / 1e9:,.1f} GB, and a device "
            f"has {memory / 1e9:,.1f} GB for them",
        )  # fmt: skip
    return Derivation(actor, roofline, inputs)


def _model(top: Keys, name: Any, wanted: str, folder: Path) -> tuple[Model, tuple[Input, ...]]:
    if not isinstance(name, str) or not name:
        top.refuse("model", name, f"{wanted}, beside the device")
    if name in MODELS:
        return MODELS[name], ()
    path = folder / name
    try:
        path = path / "config.json" if path.is_dir() else path
        is_small_file = path.is_file() and path.stat().st_size <= LARGEST_CONFIG_BYTES
    except OSError:  # a name that is too long, a folder that is closed
        is_small_file = False
    if not is_small_file:
        there_is = f"there is no file {shorten(path)} of at most {LARGEST_CONFIG_BYTES:,} bytes"
        top.refuse("model", name, f"{wanted}; {there_is}")
    source, data = read_bytes(str(path))
    digest = hashlib.sha256(data).hexdigest()
    label = path.parent.name if path.name == "config.json" else path.stem
    model = parse_config(label or name, data, f"{top.source}: {source}")
    return model, (Input("model", digest),)
