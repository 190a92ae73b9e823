"""What would a schedule take on a cluster, and is that less than other ways take?

In: a schedule, the lengths table that it was made from, a cluster file; a profile, where the true
lengths are to be recorded ones. Out: the trace table of a run, or a comparison in words.

    asp simulate schedule.parquet --cluster cluster.toml --lengths lengths.parquet -o trace.parquet
"""

from dataclasses import asdict, dataclass, replace

import polars as pl

from rollout.control.plan import Plan
from rollout.control.schedule import plan_of
from rollout.origin import check_same_prompts, recorded_settings, scheduled_prompts
from rollout.simulator import words
from rollout.simulator.chrome import chrome_trace
from rollout.simulator.clusterfile import ClusterFile, read_cluster
from rollout.simulator.compare import Comparison, num_iterations
from rollout.simulator.measures import measure, results_of
from rollout.simulator.modes import Mode, in_mode
from rollout.simulator.observed import Recorded, read_observed
from rollout.simulator.simulate import simulate
from rollout.simulator.truth import draw_truth
from stages.lengths import table as lengths_table
from stages.tables.derived import complete_groups
from stages.tables.errors import AspError, errors_of, log
from stages.tables.io import Table, check_output, read_table, write_bytes, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import IS_HEAD, Groups, Lengths, Trace


@dataclass(frozen=True)
class Inputs:
    """What a simulation reads."""

    schedule: Table
    lengths: pl.DataFrame  # of the prompts of the schedule
    recorded: Recorded  # none without a profile
    cluster: ClusterFile
    footer: tuple[Input, ...]


def run(
    schedule: str, lengths: str, profile: str | None, cluster: str,
    output: str, chrome: str | None, seed: int, force: bool,
) -> None:  # fmt: skip
    """Read, simulate once, write the trace, say what it came to."""
    outputs = [output] if chrome is None else [output, chrome]
    for path in outputs:
        check_output(path, force)
    found = read_inputs(schedule, lengths, profile, cluster)
    plan = _plan_of(found.schedule)
    cluster_file = found.cluster
    truth = draw_truth(
        found.lengths, found.recorded, len(set(plan.epoch_g)), max(plan.samples_g), seed,
        cluster_file.cluster.timeouts,
    )  # fmt: skip
    warn_of_idle_budgets(plan, cluster_file.mode, cluster_file.settings.max_lag)
    plan, on, settings = in_mode(
        cluster_file.mode, plan, cluster_file.cluster, cluster_file.settings
    )
    warn_of_idle_actors(plan, on.num_actors)
    with errors_of(cluster_file.name):
        done = simulate(plan, truth.workload(plan), on, settings, cluster_file.disturbances)
    measures = measure(done, num_iterations(found.schedule.frame))
    provenance = Provenance(
        "simulate", "trace/1", seed=seed, inputs=found.footer,
        config={
            "mode": cluster_file.mode, "cluster": asdict(on), "settings": asdict(settings),
            "disturbances": [asdict(each) for each in cluster_file.disturbances],
        },
        results=results_of(done, measures),
    )  # fmt: skip
    write_table(done.trace, Trace, output, provenance, force)
    if chrome is not None:
        write_bytes(chrome_trace(done.trace).encode(), chrome, force)
    for line in words.of_run(measures, len(done.steps), done.seconds):
        log.info(line)


def run_comparison(
    schedule: str, lengths: str, profile: str | None, cluster: str, num_seeds: int, seed: int
) -> str:
    """Read, simulate every way under each seed, and render the comparison as text."""
    found = read_inputs(schedule, lengths, profile, cluster)
    if found.cluster.disturbances:
        log.warning("--compare leaves the disturbances out: their times are those of one run")
    plan = _plan_of(found.schedule)
    warn_of_idle_budgets(plan, "asp", found.cluster.settings.max_lag)
    warn_of_idle_actors(plan, found.cluster.cluster.num_actors)
    cut, deal = recorded_settings(found.schedule)
    num_samples = _samples_per_prompt(found.schedule)
    comparison = Comparison(
        found.schedule.frame,
        lengths_table.complete(found.lengths, num_samples),
        found.recorded,
        replace(cut, samples_per_prompt=num_samples),
        replace(deal, epochs=len(set(plan.epoch_g))),
        found.cluster.cluster,
        found.cluster.settings,
    )
    with errors_of(found.cluster.name):
        return words.of_comparison(comparison.run(num_seeds, seed), num_seeds)


def read_inputs(schedule: str, lengths: str, profile: str | None, cluster: str) -> Inputs:
    """Read and match them.

    Raises:
        AspError: One is bad, or the lengths or the profile are of other prompts.
    """
    cluster_file = read_cluster(cluster)
    groups = read_table(schedule, Groups, complete_groups)
    predicted = read_table(lengths, Lengths, lengths_table.complete)
    check_same_prompts(groups, predicted)
    kept = predicted.frame.filter(pl.col("prompt_id").is_in(scheduled_prompts(groups).implode()))
    if kept.is_empty():
        raise AspError(f"{groups.name}: schedules no prompts; there is nothing to simulate")
    footer = [Input("schedule", groups.sha256, groups.provenance)]
    footer.append(Input("lengths", predicted.sha256, predicted.provenance))
    recorded, of_profile = read_observed(
        profile, kept, predicted.name, f"the prompts that {groups.name} schedules"
    )
    footer += of_profile
    return Inputs(groups, kept, recorded, cluster_file, (*footer, *cluster_file.inputs))


def _plan_of(schedule: Table) -> Plan:
    with errors_of(schedule.name):
        return plan_of(schedule.frame)


def _samples_per_prompt(schedule: Table) -> int:
    """Of all heads alike, since partition gives every minibatch the same."""
    heads = schedule.frame.filter(IS_HEAD)
    each = (heads["num_samples"] / heads["num_prompts"]).unique()
    if len(each) > 1:
        raise AspError(
            f"{schedule.name}: num_samples / num_prompts goes from {each.min()} to {each.max()}, "
            "and the other orders have one number for all; run partition with "
            "--samples-per-prompt N"
        )
    return int(each[0])


def warn_of_idle_budgets(plan: Plan, mode: Mode, max_lag: int) -> None:
    """Say it where no response can be cut; the Control Unit then runs each to its end."""
    if not plan.num_rounds:
        return
    if mode != "asp":
        log.warning("mode %s carries no responses: the token budgets are left out", mode)
        return
    nearest = plan.nearest_tail()
    if nearest is None or nearest > max_lag:
        log.warning(
            "no token budget can be kept: %s, and lag.max_lag is %d",
            f"the nearest tail comes {nearest} steps after its heads" if nearest else "no tail "
            "comes after a head", max_lag,
        )  # fmt: skip


def warn_of_idle_actors(plan: Plan, num_actors: int) -> None:
    """Say it where the plan's placement has no minibatch for some actors; each is an instance."""
    placed = {head.instance for head in plan.heads}
    if None not in placed and len(placed) < num_actors:
        log.warning(
            "the schedule places its minibatches on %d instances, and the cluster has %d actors: "
            "the others get tails alone; run balance with --instances %d",
            len(placed), num_actors, num_actors,
        )  # fmt: skip
