"""What does a run without a model consist of?

In: a cluster file as `asp simulate` reads it, a lengths table, perhaps a profile. Lengths are drawn
as the simulator draws them, so both run the same responses on the same cluster.
"""

from dataclasses import dataclass
from functools import partial

import polars as pl

from rollout.control.plan import Plan
from rollout.control.settings import ControlSettings
from rollout.simulator.cluster import Cluster, GenerationUnit
from rollout.simulator.clusterfile import read_cluster
from rollout.simulator.modes import Mode, in_mode
from rollout.simulator.observed import Recorded, read_observed
from rollout.simulator.price import Price
from rollout.simulator.troubles import FOR_EVER
from rollout.simulator.truth import draw_truth
from rollout.trainer.config import TimedConfig
from rollout.trainer.engines.timed import Pace, open_timed_engine
from rollout.trainer.machine import Machine
from rollout.trainer.timed import TimedTrainer, TimedTraining
from stages.lengths import table as lengths_table
from stages.tables.errors import log
from stages.tables.io import Table, read_table
from stages.tables.provenance import Input
from stages.tables.schemas import Lengths

UNCAPPED = 2**31  # lengths that were drawn are within their caps


@dataclass(frozen=True)
class TimedInputs:
    """What is read."""

    lengths: Table
    recorded: Recorded
    cluster: Cluster
    mode: Mode
    settings: ControlSettings
    footer: tuple[Input, ...]


def read_timed(config: TimedConfig) -> TimedInputs:
    """Read and match the files.

    Raises:
        AspError: One is bad.
    """
    cluster_file = read_cluster(config.cluster)
    lengths = read_table(config.lengths, Lengths, lengths_table.complete)
    recorded, of_profile = read_observed(
        config.profile, lengths.frame, lengths.name, f"the prompts of {lengths.name}"
    )
    if cluster_file.disturbances or cluster_file.cluster.timeouts != FOR_EVER:
        log.warning(
            "%s: its time-outs and disturbances are for the simulator; this run has none of them",
            cluster_file.name,
        )
    footer = [Input("lengths", lengths.sha256, lengths.provenance), *cluster_file.inputs]
    return TimedInputs(
        lengths, recorded, cluster_file.cluster, cluster_file.mode, cluster_file.settings,
        (*footer, *of_profile),
    )  # fmt: skip


def timed_machine(
    found: TimedInputs, plan: Plan, mode: Mode, settings: ControlSettings, scale: float, seed: int
) -> tuple[Machine, Plan, ControlSettings]:
    """The machine of a mode, with the plan and the settings that the mode leaves of those given."""
    kept = found.lengths.frame.filter(pl.col("prompt_id").is_in(list(set(plan.prompt_g))))
    num_epochs = len(set(plan.epoch_g))
    truth = draw_truth(kept, found.recorded, num_epochs, max(plan.samples_g), seed)
    plan, cluster, settings = in_mode(mode, plan, found.cluster, settings)
    workload = truth.workload(plan)
    devices = sum(unit.num_actors * unit.devices_per_actor for unit in cluster.generation)
    training = TimedTraining(
        cluster.training,
        devices if cluster.is_colocated else cluster.training.num_devices,
        cluster.switching_seconds if cluster.is_colocated else 0.0,
        scale,
    )
    pace_u = tuple(_pace(cluster, unit, scale) for unit in cluster.generation)
    prompt_tokens = zip(plan.prompt_g, workload.prompt_tokens_g, strict=True)
    machine = Machine(
        units=cluster.generation,
        is_static=cluster.engine == "static",
        open_engine=partial(open_timed_engine, workload.lengths_g, pace_u),
        open_trainer=partial(TimedTrainer, training),
        num_training_devices=0 if cluster.is_colocated else cluster.training.num_devices,
        prompt_ids={prompt: (0,) * num_tokens for prompt, num_tokens in prompt_tokens},
        cap=UNCAPPED,
        scores=None,
        reward_seconds=cluster.reward_seconds * scale,
        publication_seconds=cluster.training.publication_seconds * scale,
    )
    return machine, plan, settings


def _pace(cluster: Cluster, unit: GenerationUnit, scale: float) -> Pace:
    price = Price.of(cluster.cost_model, unit.speed, unit.slots, unit.devices_per_actor)
    reload_seconds = 0.0 if cluster.is_colocated else cluster.reload_seconds
    return Pace(price, reload_seconds, scale, cluster.engine == "static")
