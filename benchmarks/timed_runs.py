"""Runs of `asp train --engine timed`: processes, scaled real time, no model."""

from dataclasses import dataclass, fields
from pathlib import Path

from rollout.simulator.cluster import Cluster
from rollout.simulator.ledger import Ledger
from rollout.simulator.measures import Measures
from rollout.simulator.modes import Mode
from rollout.trainer.config import ControlConfig, CutConfig, RunConfig, TimedConfig
from stages.tables.io import read_table
from stages.tables.schemas import Metrics


@dataclass(frozen=True)
class Inputs:
    """Files that a run reads, and real seconds a second of the cluster."""

    schedule: Path
    lengths: Path
    profile: Path | None
    scale: float


def train_timed(
    place: Path, inputs: Inputs, cluster: Cluster, mode: Mode, max_lag: int, seed: int
) -> Measures:
    """Run, unless that was done, and tell what came of it, in real seconds."""
    if not (place / "model").exists():
        from rollout.trainer import stage

        file = place.with_suffix(".toml")
        file.write_text(to_toml(cluster))
        profile = None if inputs.profile is None else str(inputs.profile)
        source = TimedConfig(str(file), str(inputs.lengths), profile, inputs.scale)
        stage.run(
            str(inputs.schedule), str(place), source, ControlConfig(mode, max_lag), CutConfig(),
            RunConfig(checkpoint_every=1000), seed, is_shown=False,
        )  # fmt: skip
    provenance = read_table(str(place / "metrics.parquet"), Metrics).provenance
    assert provenance is not None, "a run writes a footer"
    results = {field.name: provenance.results[field.name] for field in fields(Measures)}
    return Measures(**{**results, "ledger": Ledger(**results["ledger"])})


def to_toml(cluster: Cluster) -> str:
    """The file of a cluster of equal units; the lag bound is told apart."""
    unit, training, costs = cluster.generation[0], cluster.training, cluster.cost_model
    assert set(cluster.generation) == {unit}, "equal units"
    return f"""[generation]
units = {len(cluster.generation)}
actors = {unit.num_actors}
devices_per_actor = {unit.devices_per_actor}
slots = {unit.slots}
engine = "{cluster.engine}"
reload_seconds = {cluster.reload_seconds}
[generation.cost]
step_seconds = {costs.step_seconds}
sequence_seconds = {costs.sequence_seconds}
prefill_seconds = {costs.prefill_seconds}
kv_seconds = {costs.kv_seconds}
[training]
devices = {training.num_devices}
tokens_per_second = {1 / training.token_device_seconds}
step_seconds = {training.step_seconds}
export_seconds = {training.export_seconds}
publication_seconds = {training.publication_seconds}
reward_seconds = {cluster.reward_seconds}
switching_seconds = {cluster.switching_seconds}
[lag]
max_lag = 0
"""
