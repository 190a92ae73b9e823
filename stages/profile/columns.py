"""Which column of a file of recorded responses holds what?

Three layouts are known: `plain`, a row a response with its length or text; `verl`, the files of
`trainer.rollout_data_dir` (`<step>.jsonl`: input, output, gts, score, step; read in
verl/trainer/ppo/ray_trainer.py, `_dump_generations`); `trl`, the files of GRPOTrainer's
`log_completions` (`completions_<step>.parquet`: step, prompt, completion, rewards, advantage;
read in trl/trainer/grpo_trainer.py, `log`). A flag can rename any column of any of them.

Of an episode with tools verl logs one text, what the tools said included: lengths counted from it
come out too long. TRL logs messages, of which the model's own are counted.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from stages.tables.errors import AspError

Layout = Literal["plain", "verl", "trl"]
Format = Literal["auto", "plain", "verl", "trl"]

_PLAIN: dict[str, tuple[str, ...]] = {
    "prompt": ("prompt",),
    "tokens": ("response_tokens",),
    "response": ("response",),
    "model": ("model",),
    "sample_index": ("sample_index",),
    "prompt_tokens": ("prompt_tokens",),
    "finish_reason": ("finish_reason",),
    "capped": ("capped",),
    "max_tokens": ("max_tokens", "max_response_tokens"),  # the second: in a profile table
    "temperature": ("temperature",),
    "policy_version": ("policy_version",),
    "latency": ("latency_s",),
    "ttft": ("ttft_s",),
    "concurrency": ("concurrency",),
    "domain": ("domain",),
}
FIELDS = tuple(_PLAIN)
"""What a flag `--rollouts-FIELD-column` can name, `_` written as `-`."""

LAYOUTS: dict[Layout, dict[str, tuple[str, ...]]] = {
    "plain": _PLAIN,
    "verl": _PLAIN | {"prompt": ("input",), "response": ("output",), "step": ("step",)},
    "trl": _PLAIN | {"response": ("completion",), "step": ("step",), "advantage": ("advantage",)},
}
"""The names by which a field is looked for, the first one found counts."""


def detect_layout(columns: Sequence[str]) -> Layout:
    """Tell the layout from the names of the columns; plain where no other fits."""
    held = set(columns)
    if {"input", "output"} <= held and "prompt" not in held:
        return "verl"
    if {"step", "prompt", "completion"} <= held and not {"response", "response_tokens"} & held:
        return "trl"
    return "plain"


def flag_of(field: str) -> str:
    """The flag that names a field's column."""
    return f"--rollouts-{field.replace('_', '-')}-column"


def find_columns(
    columns: Sequence[str], layout: Layout, named: Mapping[str, str], name: str
) -> dict[str, str]:
    """The column of each field that the file holds.

    Args:
        columns: The columns of the file.
        layout: Whose names to look for.
        named: Fields whose column the user named; those must be there.
        name: The file, for messages.

    Raises:
        AspError: A named column is missing.
    """
    found = {}
    for field, defaults in LAYOUTS[layout].items():
        if field in named and named[field] not in columns:
            raise AspError(
                f"{name}: no column {named[field]!r} ({flag_of(field)}); "
                f"it has {', '.join(columns) or 'no columns'}"
            )
        candidates = (named[field],) if field in named else defaults
        present = next((column for column in candidates if column in columns), None)
        if present is not None:
            found[field] = present
    return found
