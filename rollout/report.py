"""A replay told to a person: one line a measure, one column an order, and what it means."""

import math
from dataclasses import fields
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl

from rollout.replay import NUM_SHUFFLES, Measures, ReplayConfig, compare, recorded_lengths
from stages.balance.stage import BalanceConfig
from stages.costs.model import recorded_cost_model
from stages.lengths import table as lengths_table
from stages.partition.budgets import UNKNOWN_PREFILL_COST
from stages.partition.config import PartitionConfig
from stages.partition.stage import LARGEST_COUNT
from stages.tables.derived import complete_groups, complete_profile
from stages.tables.errors import AspError, log
from stages.tables.io import Table, read_table
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
    cut, deal = _settings(groups)
    complete = partial(lengths_table.complete, samples_per_prompt=cut.samples_per_prompt)
    predicted = read_table(lengths, Lengths, complete)
    observed = read_table(profile, Profile, complete_profile)
    _check_same_prompts(groups, predicted)
    known = recorded_lengths(predicted.frame, observed.frame)
    num_known = len(known)
    if known.keys().isdisjoint(_scheduled(groups)):
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
        PartitionConfig(
            **_known(PartitionConfig, cut.config if cut else {})
            | {"cost_model": recorded_cost_model(found)}
        ),
        BalanceConfig(**_known(BalanceConfig, deal.config if deal else {})),
    )


def _prefill_cost(provenance: Provenance | None) -> float:
    """What partition took the prefill of a carried token to cost, if the footers tell."""
    origin = provenance.ancestor("partition") if provenance else None
    known = origin.results.get("prefill_cost") if origin else None
    is_usable = isinstance(known, int | float) and 0 <= known < math.inf
    return float(known) if is_usable else UNKNOWN_PREFILL_COST  # type: ignore[arg-type]


def _known(config_class: type, config: dict[str, Any]) -> dict[str, Any]:
    """The settings that the class has, where their values can be meant: a footer may hold all."""
    kinds = get_type_hints(config_class)
    return {n: v for n, v in config.items() if n in kinds and _is_possible(v, kinds[n])}


def _is_possible(value: object, kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_is_possible(value, part) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is NoneType:
        return value is None
    if kind is float:
        return isinstance(value, int | float) and 0 <= value <= 1  # the slack
    return type(value) is int and 1 <= value <= LARGEST_COUNT


def _scheduled(groups: Table) -> pl.Series:
    ids = pl.col("prompt_ids").explode(empty_as_null=False).unique()
    return groups.frame.select(ids).to_series()


def _check_same_prompts(groups: Table, lengths: Table) -> None:
    scheduled = _scheduled(groups)
    missing = scheduled.filter(~scheduled.is_in(lengths.frame["prompt_id"].implode()))
    if len(missing):
        raise AspError(
            f"{lengths.name}: lacks {len(missing)} of the prompts that {groups.name} schedules, "
            f"first prompt_id {missing.min()}; give the lengths it was made from"
        )
