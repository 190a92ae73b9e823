"""Which cluster does a file describe?

    asp simulate schedule.parquet --cluster cluster.toml --lengths lengths.parquet -o trace.parquet

The file is TOML; `sample_data/cluster.toml` has every key but those of device and model, which
`sample_data/cluster-h100.toml` has.
"""

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from rollout.control.settings import ControlSettings, Pacing, Refresh
from rollout.simulator.cluster import Cluster, Engine, GenerationUnit, TrainingUnit
from rollout.simulator.hardware import Derivation, read_derivation
from rollout.simulator.keys import Keys, is_number
from rollout.simulator.modes import Mode
from rollout.simulator.troubles import Disturbance, disturbances, time_outs
from stages.costs.file import parse_coefficients, read_cost_model
from stages.costs.model import CostModel
from stages.tables.errors import AspError, log, shorten
from stages.tables.io import STDIO, read_bytes
from stages.tables.provenance import Input

MOST_ACTORS = 10_000  # that all devices together would make: a run takes their number squared
LARGEST_SPEED = 1e6  # of a unit; the least is one over it


@dataclass(frozen=True)
class ClusterFile:
    """What the file says, and what is to be said of it in a footer."""

    name: str  # for messages
    mode: Mode
    cluster: Cluster
    settings: ControlSettings
    disturbances: tuple[Disturbance, ...]
    derivation: Derivation
    inputs: tuple[Input, ...]


def read_cluster(path: str) -> ClusterFile:
    """Read a cluster file, and the cost model that it may name, relative to its own folder.

    What follows from a device and a model is told, since it is not measured.

    Raises:
        AspError: It is no TOML; a key is unknown, missing, or has a value that cannot be meant.
    """
    source, data = read_bytes(path)
    try:
        values = tomllib.loads(data.decode())
        json.dumps(values, default=str)  # a number of thousands of digits could not be told
    except (ValueError, RecursionError) as error:
        reason = shorten(str(error).partition(";")[0])
        raise AspError(f"{source}: not a TOML file: {reason}; correct it") from None
    folder = Path() if path == STDIO else Path(path).parent
    top = Keys(source, "", values)
    mode = top.choice("mode", get_args(Mode), "asp")
    refresh = top.choice("refresh", get_args(Refresh), "unload")
    generation, training = top.table("generation"), top.table("training")
    queue, lag = top.table("queue", is_needed=False), top.table("lag")
    num_devices = generation.whole("devices_per_actor", 1, 1)
    derived = read_derivation(top, generation, num_devices, folder)
    timeouts, troubles = top.table("timeouts", is_needed=False), top.tables("disturbances")
    top.finish()
    units = _units(generation, num_devices, derived)
    cost_model, inputs = _cost_model(generation, folder, derived, units[0].slots)
    tokens_per_second = training.rate(
        "tokens_per_second", derived.default(training, "tokens_per_second")
    )
    cluster = Cluster(
        generation=units,
        training=TrainingUnit(
            num_devices=_training_devices(training, units),
            token_device_seconds=1 / tokens_per_second,
            step_seconds=training.seconds("step_seconds"),
            export_seconds=training.seconds("export_seconds", 0.0),
            publication_seconds=training.seconds(
                "publication_seconds", derived.default(training, "publication_seconds")
            ),
        ),
        cost_model=cost_model,
        engine=generation.choice("engine", get_args(Engine)),
        reload_seconds=generation.seconds(
            "reload_seconds", derived.default(generation, "reload_seconds")
        ),
        reward_seconds=training.seconds("reward_seconds", 0.0),
        switching_seconds=training.seconds("switching_seconds", 0.0),
        timeouts=time_outs(timeouts),
    )
    settings = ControlSettings(
        max_lag=lag.whole("max_lag", 0), queue_capacity=queue.whole("capacity", 1, None),
        pacing=queue.choice("pacing", get_args(Pacing), "setpoint"),
        set_point=queue.whole("set_point", 1, None), refresh=refresh,
    )  # fmt: skip
    for table in (generation, training, queue, lag, timeouts):
        table.finish()
    derived.finish()
    for line in derived.in_words():
        log.info(line)
    digest = hashlib.sha256(data).hexdigest()
    inputs = (Input("cluster", digest), *inputs, *derived.inputs)
    events = disturbances(troubles, len(cluster.generation))
    return ClusterFile(source, mode, cluster, settings, events, derived, inputs)


def _units(generation: Keys, num_devices: int, derived: Derivation) -> tuple[GenerationUnit, ...]:
    num_units, num_actors = generation.whole("units", 1), generation.whole("actors", 1)
    if num_units * num_actors > MOST_ACTORS:
        generation.refuse("actors", num_actors, f"at most {MOST_ACTORS} in all units together")
    least, most = 1 / LARGEST_SPEED, LARGEST_SPEED
    wanted = f"a list of {num_units} numbers from {least:g} to {most:g}, the speed of each unit"
    speeds = generation.take("speeds", wanted, [1.0] * num_units)
    is_list = isinstance(speeds, list) and len(speeds) == num_units
    if not is_list or not all(is_number(speed) and least <= speed <= most for speed in speeds):
        generation.refuse("speeds", speeds, wanted)
    slots = derived.slots(generation)
    return tuple(GenerationUnit(num_actors, num_devices, slots, float(speed)) for speed in speeds)


def _training_devices(training: Keys, units: tuple[GenerationUnit, ...]) -> int:
    """Not so many that, as actors, they would be too many: `plan` and hybrid turn them to those."""
    number: int = training.whole("devices", 1)
    actors = sum(unit.num_actors for unit in units)
    most = (MOST_ACTORS - actors + 1) * units[0].devices_per_actor
    if number > most:
        training.refuse("devices", number, f"at most {most:,}, beside {actors:,} actors")
    return number


def _cost_model(
    generation: Keys, folder: Path, derived: Derivation, slots: int
) -> tuple[CostModel, tuple[Input, ...]]:
    """Coefficients, or a file of them, or a profile to fit them to: one of the three.

    Of a device and a model the roofline fills in the coefficients that are not given.
    """
    wanted = "a file of coefficients or a profile, or else a table [generation.cost]"
    path = generation.take("cost_model", wanted, None)
    if path is None:
        needed: Any = {} if derived.actor else ...
        cost = generation.take("cost", "a table of coefficients, or else cost_model", needed)
        name = generation.name("cost")
        if isinstance(cost, dict):
            cost = derived.coefficients(name, cost, slots)
        data = json.dumps(cost, default=str).encode()
        return parse_coefficients(f"{generation.source}: {name}", data), ()
    if not isinstance(path, str) or path == STDIO:
        generation.refuse("cost_model", path, wanted)
    if generation.take("cost", wanted, None) is not None:
        generation.refuse("cost_model", path, "either this or [generation.cost], not both")
    derived.stand_back(generation.name("cost_model"))
    found = read_cost_model(str(folder / path))
    return found.model, (found.input,)
