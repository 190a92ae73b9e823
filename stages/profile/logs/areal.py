"""`rollout.dump_to_file=true` with a `tokenizer_path` makes AReaL write `VERSION/TASK_ID.jsonl`.

They lie in `rollout/` of the trial's logs; give that folder. Fields `task_id`, `sample_idx`,
`seqlen`, `prompt_len`, `head_version`, `tail_version`, `reward`, `prompt`, `completion`. The length
is exact: `seqlen - prompt_len` counts the tokens that were generated, in every turn. Prompts stand
in the chat template, special tokens included. No finish reason.

`policy_version` is `head_version`, or `tail_version` where the former is -1: AReaL takes the least
over all tokens, and marks those of the prompt with -1. `task_id` joins where PROMPTS has such a
column.

Read in areal/infra/workflow_executor.py, `_dump_trajectory` (1.0.4).
"""

import polars as pl

from stages.profile.logs.layout import FIELDS, Layout, whole_numbers
from stages.tables.prompts import parse_records


def read(name: str, data: bytes) -> pl.DataFrame:
    """A file's rows, with the length and the version that its counts give."""
    table = parse_records(name, data)
    counts = ("seqlen", "prompt_len", "head_version", "tail_version")
    table = table.with_columns(whole_numbers(table, count, "areal", name) for count in counts)
    version = pl.when(pl.col("head_version") < 0).then("tail_version").otherwise("head_version")
    return table.with_columns(
        response_tokens=pl.col("seqlen") - pl.col("prompt_len"),
        policy_version=version.clip(lower_bound=0),
    )


AREAL = Layout(
    name="areal",
    about=__doc__,
    columns=FIELDS
    | {
        "response": ("completion",),
        "sample_index": ("sample_idx",),
        "prompt_tokens": ("prompt_len",),
    },
    read=read,
    files=r"(?!(.*/)?eval-rollout/).*\.jsonl",
    signs=frozenset({"task_id", "seqlen", "prompt_len", "tail_version"}),
    is_templated=True,
    sample="from its documented fields",
)
