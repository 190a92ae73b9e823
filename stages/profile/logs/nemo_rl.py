"""NeMo-RL's GRPO writes `train_data_stepN.jsonl` to its log folder, `logger.log_dir`.

Fields `content` (the texts of the messages, the prompt first), `rewards`, `input_lengths`,
`token_ids`, `token_loss_mask`, and log-probabilities a token, so files are large; every value
stands in a list of one. The length is exact: the sum of `token_loss_mask`, which marks the tokens
that were generated in any turn. Prompts stand in the chat template, special tokens included. No
finish reason. No file is written while `env.should_log_nemo_gym_responses` is on.

`policy_version` is the step of the file's name less 1; with `grpo.async_grpo` a response may be of
an older one. Where `content` is missing prompts are known by their token ids, and `--tokenizer`
turns them into text.

Read in nemo_rl/algorithms/grpo.py and nemo_rl/utils/logger.py, `log_batched_dict_as_jsonl` (after
0.7).
"""

import io
from typing import Any

import polars as pl

from stages.profile.logs.layout import FIELDS, Layout, step_in
from stages.tables.errors import AspError
from stages.tables.prompts import parse_json_line

_COLUMNS: dict[str, Any] = {
    "prompt": pl.String,
    "prompt_ids": pl.List(pl.Int64),
    "response_tokens": pl.Int64,
    "prompt_tokens": pl.Int64,
}


def read(name: str, data: bytes) -> pl.DataFrame:
    """A file's rows; line by line, since most of a line is not needed."""
    lines = enumerate(io.BytesIO(data), start=1)
    rows = [
        _row(parse_json_line(name, number, line), f"{name}: line {number}")
        for number, line in lines
        if line.strip()
    ]
    step = step_in(name, r"step(\d+)\.jsonl$")
    version = None if step is None else max(step - 1, 0)
    return pl.DataFrame(rows, schema=_COLUMNS, orient="row").with_columns(
        policy_version=pl.lit(version, pl.Int64)
    )


def _row(record: dict[str, Any], where: str) -> tuple[str | None, list[int] | None, int, int]:
    mask, ids = _only(record.get("token_loss_mask")), _only(record.get("token_ids"))
    if not isinstance(mask, list) or not all(mark in (0, 1) for mark in mask):
        raise AspError(
            f"{where}: 'token_loss_mask' is no list of 0 and 1 in a list of one; "
            "is it a train_data_step file of NeMo-RL?"
        )
    first = next((at for at, mark in enumerate(mask) if mark), len(mask))
    texts = _only(record.get("content"))
    if isinstance(texts, list) and texts and isinstance(texts[0], str):
        return texts[0], None, int(sum(mask)), first
    if not isinstance(ids, list) or not all(isinstance(token, int) for token in ids):
        raise AspError(f"{where}: has neither 'content' nor 'token_ids', one of which is needed")
    return None, ids[:first], int(sum(mask)), first


def _only(value: object) -> object:
    """The value itself: the logger writes slices of one row."""
    return value[0] if isinstance(value, list) and len(value) == 1 else None


NEMO_RL = Layout(
    name="nemo-rl",
    about=__doc__,
    columns=FIELDS | {"prompt_ids": ("prompt_ids",)},
    read=read,
    files=r"(.*/)?train_data_step\d+\.jsonl",
    signs=frozenset({"token_loss_mask", "input_lengths"}),
    is_templated=True,
    sample="from its documented fields",
)
