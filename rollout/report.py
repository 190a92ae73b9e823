"""A replay told to a person: one line a measure, one column an order, and what it means."""

import math
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rollout.origin import check_same_prompts, recorded_settings, scheduled_prompts
from rollout.replay import NUM_SHUFFLES, Measures, ReplayConfig, compare, recorded_lengths
from stages.lengths import table as lengths_table
from stages.partition.budgets import UNKNOWN_PREFILL_COST
from stages.tables.derived import complete_groups, complete_profile
from stages.tables.errors import AspError, log
from stages.tables.io import read_table
from stages.tables.provenance import Provenance
from stages.tables.schemas import Groups, Lengths, Profile

LEAST_CHANGE = 0.01  # a smaller one is none, however sure it is


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
    cut, deal = recorded_settings(groups)
    complete = partial(lengths_table.complete, samples_per_prompt=cut.samples_per_prompt)
    predicted = read_table(lengths, Lengths, complete)
    observed = read_table(profile, Profile, complete_profile)
    check_same_prompts(groups, predicted)
    known = recorded_lengths(predicted.frame, observed.frame)
    num_known = len(known)
    if known.keys().isdisjoint(scheduled_prompts(groups)):
        raise AspError(
            f"{observed.name}: holds no response to any of the prompts that {groups.name} "
            "schedules; profile these prompts"
        )
    if num_known < len(predicted.frame):
        log.warning(
            "%d of %d prompts have no recorded response and are left out everywhere",
            len(predicted.frame) - num_known, len(predicted.frame),
        )  # fmt: skip
    trained = predicted.provenance.ancestor("train-predictor") if predicted.provenance else None
    if trained and any(item.sha256 == observed.sha256 for item in trained.inputs):
        log.warning(
            "%s is the profile that the predictor was trained on: the gain on responses it has not "
            "seen is smaller", observed.name,
        )  # fmt: skip
    config = ReplayConfig(cut, deal, slots, _prefill_cost(groups.provenance), seed)
    if groups.frame["token_budget"].count():
        log.info(
            "%s has token budgets: the utilisation is with them, the other measures without",
            groups.name,
        )
    return render(compare(groups.frame, predicted.frame, observed.frame, config), config)


def render(measures: dict[str, list[Measures]], config: ReplayConfig) -> str:
    """A table of the measures, and for each whether the schedule gains over random order."""
    lines = [f"{'':36}" + "".join(f"{title:>10}" for title in measures) + "   schedule / random"]
    for field in fields(Measures):
        row = ROWS[field.name]
        values = {k: np.array([getattr(m, field.name) for m in v]) for k, v in measures.items()}
        cells = "".join(f"{row.form.format(values[name].mean()):>10}" for name in measures)
        lines.append(f"{row.label:36}{cells}   {_verdict(values, row)}")
    lines.append(
        f"On recorded lengths; random is the mean of {NUM_SHUFFLES} orders. More is better in the "
        f"first line, less in the others.\nA synchronous step is one group on {config.slots} slots "
        "with continuous batching."
    )
    return "\n".join(lines)


def _verdict(values: dict[str, Any], row: Row) -> str:
    """A gain only where the schedule beats 95% of the random orders, and by 1% or more."""
    schedule, shuffles = float(values["schedule"][0]), values["random"]
    low, high = np.quantile(shuffles, [0.05, 0.95])
    is_gain = schedule > high if row.higher_is_better else schedule < low
    is_loss = schedule < low if row.higher_is_better else schedule > high
    mean = float(shuffles.mean())
    ratio = schedule / mean if mean else 1.0
    change = f"{ratio:.2f}x"
    if abs(ratio - 1) < LEAST_CHANGE:
        return f"no gain ({change})"
    if is_gain:
        return f"{change}, a gain"
    return f"no gain: a loss ({change})" if is_loss else f"no gain ({change}, within chance)"


def _prefill_cost(provenance: Provenance | None) -> float:
    """What partition took the prefill of a carried token to cost, if the footers tell."""
    origin = provenance.ancestor("partition") if provenance else None
    known = origin.results.get("prefill_cost") if origin else None
    is_usable = isinstance(known, int | float) and 0 <= known < math.inf
    return float(known) if is_usable else UNKNOWN_PREFILL_COST  # type: ignore[arg-type]
