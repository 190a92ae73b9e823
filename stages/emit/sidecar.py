"""`asp.json`: what lies where in the data file, and everything that was settled.

Plain JSON, since it is read by scripts around a trainer that need no Parquet reader. One key a
line; a million rows make about 10 MB.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from stages.emit.columns import FIRST_PRIORITY
from stages.emit.plan import epoch_spans, spans
from stages.emit.schedule import CanonicalSchedule
from stages.emit.trainer import Handover, Trainer
from stages.tables.provenance import tool_version

SIDECAR_FILE = "asp.json"
SIDECAR_VERSION = 1


def describe(
    trainer: Trainer,
    handover: Handover,
    schedule: CanonicalSchedule,
    inputs: Mapping[str, str],
) -> dict[str, Any]:
    """Everything a consumer, or a later check of the trainer's log, needs to know.

    Batch b of the trainer is rows b x train_batch_size to (b + 1) x train_batch_size - 1.
    `epochs` tile the rows, repeats included; `minibatches` and `groups` those that are no repeats;
    `row_prompt_ids` gives for each row of the data file its row in the user's prompt file.
    `overlong` names the prompts that are in no row, `first_priority` the number by which the first
    row is placed. `inputs` are sha256 by role.
    """
    treated, overlong = handover.treated, handover.overlong
    return {
        "version": SIDECAR_VERSION,
        "tool": tool_version(),
        "trainer": trainer.name,
        "follows": asdict(trainer.follows),
        "data_file": handover.data_file,
        "prompt_column": handover.prompt_column,
        "num_rows": handover.num_rows,
        "num_epochs": handover.num_epochs,
        "samples_per_prompt": handover.samples_per_prompt,
        "train_batch_size": handover.batch.size,
        "train_batch_size_from": handover.batch.source,
        "num_train_batches": handover.num_train_batches,
        "num_straddling_groups": handover.num_straddling_groups,
        "settings": trainer.settings(handover),
        "schedule_settings": schedule.provenance.config,
        "remainder": {
            "rule": treated.rule,
            "num_prompts": treated.num_touched,
            "epochs": treated.account,
        },
        "overlong": None
        if overlong is None
        else {
            "max_prompt_tokens": overlong.max_prompt_tokens,
            "tokenizer": overlong.tokenizer,
            "prompt_ids": overlong.prompts["prompt_id"].to_list(),
            "num_moved": overlong.num_moved,
        },
        "first_priority": FIRST_PRIORITY,
        "inputs": dict(inputs),
        "epochs": epoch_spans(treated.plan).to_dicts(),
        "groups": spans(treated.plan, "group_id").to_dicts(),
        "minibatches": spans(treated.plan, "group_id", "minibatch_id", "instance").to_dicts(),
        "row_prompt_ids": treated.plan["prompt_id"].to_list(),
    }


def render(sidecar: Mapping[str, Any]) -> str:
    """One key a line: readable, and compact where it is long."""
    lines = (
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in sidecar.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"
