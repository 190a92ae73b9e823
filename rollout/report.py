"""A replay told to a person: one line a measure, one column an order, and what it means."""

from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rollout.replay import NUM_SHUFFLES, Measures, ReplayConfig, compare, recorded_lengths
from stages.balance.stage import BalanceConfig
from stages.lengths import table as lengths_table
from stages.partition.stage import PartitionConfig
from stages.tables.derived import complete_groups, complete_profile
from stages.tables.errors import AspError, log
from stages.tables.io import Table, read_table
from stages.tables.schemas import Groups, Lengths, Profile


class Row(NamedTuple):
    """How a measure is shown."""

    label: str
    form: str
    higher_is_better: bool


ROWS = {
    "utilization": Row("utilisation of static minibatches", "{:.3f}", True),
    "imbalance": Row("largest group above its share", "{:.1%}", False),
    "step": Row("decode steps of a synchronous step", "{:.0f}", False),
}


def run(schedule: str, lengths: str, profile: str, slots: int, seed: int) -> str:
    """Read, replay, and render the comparison as text."""
    groups = read_table(schedule, Groups, complete_groups)
    cut, deal = _settings(groups)
    complete = partial(lengths_table.complete, samples_per_prompt=cut.samples_per_prompt)
    predicted = read_table(lengths, Lengths, complete)
    observed = read_table(profile, Profile, complete_profile)
    _check_same_prompts(groups, predicted)
    num_known = len(recorded_lengths(predicted.frame, observed.frame))
    if not num_known:
        raise AspError(
            f"{observed.name}: holds no response to any of the {len(predicted.frame)} prompts "
            f"of {predicted.name}; profile these prompts"
        )
    if num_known < len(predicted.frame):
        log.warning(
            "%d of %d prompts have no recorded response and are left out everywhere",
            len(predicted.frame) - num_known, len(predicted.frame),
        )  # fmt: skip
    config = ReplayConfig(cut, deal, slots, seed)
    return render(compare(groups.frame, predicted.frame, observed.frame, config), config)


def render(measures: dict[str, list[Measures]], config: ReplayConfig) -> str:
    """A table of the measures, and for each whether the schedule gains over random order."""
    titles = {"random": "random", "sorted": "sorted", "schedule": "schedule", "perfect": "perfect"}
    lines = [
        f"{'':36}" + "".join(f"{title:>10}" for title in titles.values()) + "   gain over random"
    ]
    for field in fields(Measures):
        row = ROWS[field.name]
        values = {k: np.array([getattr(m, field.name) for m in v]) for k, v in measures.items()}
        cells = "".join(f"{row.form.format(values[name].mean()):>10}" for name in titles)
        lines.append(f"{row.label:36}{cells}   {_verdict(values, row)}")
    lines.append(
        f"Recorded lengths; random: mean of {NUM_SHUFFLES} orders. A synchronous step is one "
        f"group on {config.slots} slots, continuous batching."
    )
    return "\n".join(lines)


def _verdict(values: dict[str, Any], row: Row) -> str:
    """A gain only where the schedule beats 95% of the random orders."""
    schedule, shuffles = float(values["schedule"][0]), values["random"]
    low, high = np.quantile(shuffles, [0.05, 0.95])
    is_gain = schedule > high if row.higher_is_better else schedule < low
    is_loss = schedule < low if row.higher_is_better else schedule > high
    mean = float(shuffles.mean())
    change = f"{schedule / mean:.2f}x" if mean else "1.00x"
    if is_gain:
        return f"{change}"
    return f"no gain: a loss ({change})" if is_loss else f"no gain ({change}, within chance)"


def _settings(groups: Table) -> tuple[PartitionConfig, BalanceConfig]:
    """How the schedule was made, from the footers of its chain; defaults where they are silent."""
    found = groups.provenance
    cut = found.ancestor("partition") if found else None
    deal = found.ancestor("balance") if found else None
    if cut is None or deal is None:
        log.warning(
            "%s does not tell how it was made; the other orders use the default settings",
            groups.name,
        )
    return (
        PartitionConfig(**_known(PartitionConfig, cut.config if cut else {})),
        BalanceConfig(**_known(BalanceConfig, deal.config if deal else {})),
    )


def _known(config_class: type, config: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(config_class)}
    return {name: value for name, value in config.items() if name in names}


def _check_same_prompts(groups: Table, lengths: Table) -> None:
    scheduled = groups.frame.select(pl.col("prompt_ids").explode().unique()).to_series()
    missing = scheduled.filter(~scheduled.is_in(lengths.frame["prompt_id"].implode()))
    if len(missing):
        raise AspError(
            f"{lengths.name}: lacks {len(missing)} of the prompts that {groups.name} schedules, "
            f"first prompt_id {missing.min()}; give the lengths it was made from"
        )
