"""With which settings was a schedule made, and of which lengths?

The footers of its chain tell. Nothing is trusted because a footer says so: what cannot be meant is
left out, and the default stands in.
"""

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import polars as pl

from stages.balance.stage import BalanceConfig
from stages.costs.model import recorded_cost_model
from stages.partition.config import PartitionConfig
from stages.partition.stage import LARGEST_COUNT
from stages.tables.errors import AspError, log
from stages.tables.io import Table


def recorded_settings(groups: Table) -> tuple[PartitionConfig, BalanceConfig]:
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
            **known_settings(PartitionConfig, cut.config if cut else {})
            | {"cost_model": recorded_cost_model(found)}
        ),
        BalanceConfig(**known_settings(BalanceConfig, deal.config if deal else {})),
    )


def recorded_cap(groups: Table | None) -> int | None:
    """Longest response [tokens] that the lengths were predicted for; None where it is not told."""
    found = groups.provenance.ancestor("predict") if groups and groups.provenance else None
    cap = found.config.get("max_response_tokens") if found else None
    return cap if type(cap) is int and 1 <= cap <= LARGEST_COUNT else None


def known_settings(config_class: type, config: dict[str, Any]) -> dict[str, Any]:
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


def scheduled_prompts(groups: Table) -> pl.Series:
    """Ids of the prompts of a schedule, each once."""
    ids = pl.col("prompt_ids").explode(empty_as_null=False).unique()
    return groups.frame.select(ids).to_series()


def check_same_prompts(groups: Table, lengths: Table) -> None:
    """Refuse lengths that lack a prompt of the schedule."""
    scheduled = scheduled_prompts(groups)
    missing = scheduled.filter(~scheduled.is_in(lengths.frame["prompt_id"].implode()))
    if len(missing):
        raise AspError(
            f"{lengths.name}: lacks {len(missing)} of the prompts that {groups.name} schedules, "
            f"first prompt_id {missing.min()}; give the lengths it was made from"
        )
