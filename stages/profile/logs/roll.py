"""`rollout_dump_dir: /DIR` makes ROLL write `/DIR/rollout_dump_data.step_N.jsonl`.

Each file is one line: an object with a list a field, of equal length: `global_step`, `id`,
`prompt`, `messages`, `domain`, `responses`, `scores`, `sampling_params` and others. Prompts and
`id` stand as the data set has them; where texts do not join, `--rollouts-id-column id` does. There
is text alone, decoded without special tokens, so a tokenizer counts the length. The cap and the
temperature are those of `sampling_params`. No finish reason.

`policy_version` is `global_step`, which counts from 0; with `async_generation_ratio` a response may
be of an older one.

Read in roll/pipeline/rlvr/utils.py, `dump_rollout_to_specific_path` (0.3.0).
"""

import io
import json
from typing import Any

import polars as pl

from stages.profile.logs.layout import FIELDS, Layout
from stages.tables.errors import AspError
from stages.tables.prompts import parse_json_line, table_of


def read(name: str, data: bytes) -> pl.DataFrame:
    """A file's rows: its lists, side by side."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(io.BytesIO(data), start=1):
        if line.strip():
            rows += _rows(parse_json_line(name, number, line), f"{name}: line {number}")
    return table_of(rows)


def _rows(record: dict[str, Any], where: str) -> list[dict[str, Any]]:
    responses = record.get("responses")
    if not isinstance(responses, list):
        raise AspError(f"{where}: has no list 'responses'; is it a rollout dump of ROLL?")
    for field, values in record.items():
        if not isinstance(values, list) or len(values) != len(responses):
            raise AspError(
                f"{where}: {field!r} is no list of {len(responses)} values, one a response, "
                "as the fields of a dump of ROLL are"
            )
    rows = [dict(zip(record, values, strict=True)) for values in zip(*record.values(), strict=True)]
    return [row | _sampling(row.get("sampling_params")) for row in rows]


def _sampling(written: object) -> dict[str, Any]:
    """The cap and the temperature, where they are told."""
    try:
        told = json.loads(written) if isinstance(written, str) else {}
    except ValueError:
        return {}
    settings = told.get("generation_config", told) if isinstance(told, dict) else {}
    if not isinstance(settings, dict):
        return {}
    names = {"max_tokens": "max_new_tokens", "temperature": "temperature"}
    return {ours: settings[theirs] for ours, theirs in names.items() if theirs in settings}


ROLL = Layout(
    name="roll",
    about=__doc__,
    columns=FIELDS
    | {
        "prompt": ("prompt", "messages"),
        "response": ("responses",),
        "policy_version": ("global_step",),
    },
    read=read,
    files=r".*\.jsonl",
    signs=frozenset({"global_step", "responses", "scores"}),
    has_lengths=False,
    sample="from its documented fields",
)
