"""The canonical schedule: the groups in dispatch order, and what a consumer needs beside them."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from stages.tables.io import Table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import IS_HEAD


@dataclass(frozen=True)
class CanonicalSchedule:
    """A schedule as it is written: the provenance's config and results make it self-describing."""

    frame: pl.DataFrame
    provenance: Provenance
    source: str  # the groups table it was made from, for messages


def make_schedule(groups: Table) -> CanonicalSchedule:
    """Epoch after epoch, each in the order of its positions."""
    frame = groups.frame.sort("epoch", "position")
    provenance = Provenance(
        stage="emit",
        schema="schedule/1",
        config=_settings(frame, groups.provenance),
        results=dict(_counts(frame)),
        inputs=(Input("groups", groups.sha256, groups.provenance),),
    )
    return CanonicalSchedule(frame, provenance, groups.name)


def _settings(frame: pl.DataFrame, provenance: Provenance | None) -> dict[str, Any]:
    """samples_per_prompt as the rows say; the rest as the stages before noted in their footers.

    Null where a table written by hand tells nothing. lag_bound [training steps] is null, since
    nothing before the trainer decides it.
    """
    cut = _config_of(provenance, "partition")
    dealt = _config_of(provenance, "balance")
    prompts_per_group = _count(dealt, "prompts_per_group")
    return {
        "samples_per_prompt": _samples_per_prompt(frame),
        "batch_size": _count(cut, "batch_size"),
        "slack": cut.get("slack"),
        "group_size": _count(dealt, "group_size") if prompts_per_group is None else None,
        "prompts_per_group": prompts_per_group,
        "cost_model": cut.get("cost_model"),
        "lag_bound": None,
    }


def _config_of(provenance: Provenance | None, stage: str) -> dict[str, Any]:
    origin = provenance.ancestor(stage) if provenance else None
    return origin.config if origin else {}


def _count(config: dict[str, Any], name: str) -> int | None:
    """A number of at least 1; None for anything else that a footer written by others may hold."""
    value = config.get(name)
    return value if type(value) is int and value >= 1 else None


def _samples_per_prompt(frame: pl.DataFrame) -> int | None:
    """num_samples / num_prompts, if it is one whole number in all heads."""
    heads = frame.filter(IS_HEAD)
    ratio = (heads["num_samples"] / heads["num_prompts"]).unique()
    is_one_whole = len(ratio) == 1 and ratio[0] >= 1 and ratio[0] == int(ratio[0])
    return int(ratio[0]) if is_one_whole else None


def _counts(frame: pl.DataFrame) -> dict[str, int]:
    """Epochs and different prompts; minibatches and groups over all epochs."""
    heads = frame.filter(IS_HEAD)
    return {
        "num_epochs": frame["epoch"].n_unique(),
        "num_prompts": heads["prompt_ids"].explode(empty_as_null=False).n_unique(),
        "num_minibatches": len(heads),
        "num_tail_minibatches": len(frame) - len(heads),
        "num_groups": frame.select("epoch", "group_id").n_unique(),
    }
