"""`--save-debug-rollout-data DIR/{rollout_id}.pt` makes slime write a file a rollout.

A file of torch with the samples of one rollout: `prompt`, `response`, `response_length`,
`loss_mask`, `rollout_log_probs`, `status`, `weight_versions`, `metadata` and others. It is read
with `torch.load(weights_only=True)`, so no code of it runs. The length is exact: `response_length`,
less what tools said, which has neither loss nor log-probability; a token without loss that was
drawn with a probability of exactly 1 counts as theirs. `status` tells how it ended.
Prompts stand in the chat template where `--apply-chat-template` was given. Fields of `metadata` are
columns, so an id in it joins by `--rollouts-id-column`. Files of evaluation (`eval_`) are left out.

`policy_version` is the first of `weight_versions` less 1, since slime counts the weights that it
sends before the first rollout as 1; where there is none, the number of the rollout.

Read in slime/observability/rollout_data_utils.py and slime/utils/types.py, `Sample` (0.3.1).
"""

import io
import pickle
import re
from typing import Any

import polars as pl

from stages.profile.logs.layout import FIELDS, Layout
from stages.tables.errors import AspError
from stages.tables.prompts import table_of

_ENDS = {"completed": "stop", "truncated": "length"}  # aborted, failed, pending: abort


def read(name: str, data: bytes) -> pl.DataFrame:
    """A file's rows."""
    held = _load(name, data)
    samples = held.get("samples") if isinstance(held, dict) else None
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        raise AspError(f"{name}: holds no list of samples; is it rollout data of slime?")
    rollout_id = held.get("rollout_id")
    return table_of([_row(sample, rollout_id) for sample in samples])


def _load(name: str, data: bytes) -> Any:
    import torch

    try:
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        if named is None:
            raise AspError(f"{name}: is not a file of torch that can be read") from None
        raise AspError(
            f"{name}: holds {named[1]}, which is refused, since loading it can run code; "
            "is --from right, and the file yours? then keep such objects out of Sample.metadata"
        ) from None
    except Exception as error:  # a damaged one raises whatever its opcodes stumble on
        reason = str(error).splitlines()[:1] or [type(error).__name__]
        raise AspError(f"{name}: is not a file of torch that can be read: {reason[0]}") from None


def _row(sample: dict[str, Any], rollout_id: object) -> dict[str, Any]:
    metadata = sample.get("metadata")
    told = metadata if isinstance(metadata, dict) else {}
    return {
        **{key: v for key, v in told.items() if isinstance(v, str | int | float)},
        "prompt": sample.get("prompt"),
        "response_tokens": _generated(sample),
        "prompt_tokens": _prompt_tokens(sample.get("tokens"), sample.get("response_length")),
        "finish_reason": _ENDS.get(str(sample.get("status")), "abort"),
        "policy_version": _version(sample.get("weight_versions"), rollout_id),
    }


def _generated(sample: dict[str, Any]) -> object:
    """Response tokens without those of tools.

    `loss_mask` alone would not do: it can also leave out the first part of a response that was
    continued under new weights, which has its log-probabilities.
    """
    length = sample.get("response_length")
    mask, log_probs = sample.get("loss_mask"), sample.get("rollout_log_probs")
    if not isinstance(mask, list) or not isinstance(log_probs, list) or all(mask):
        return length
    return sum(bool(mark or p) for mark, p in zip(mask, log_probs, strict=False))


def _prompt_tokens(tokens: object, response_length: object) -> int | None:
    if not isinstance(tokens, list) or not isinstance(response_length, int):
        return None
    return max(len(tokens) - response_length, 0) or None  # 0: never sent, so not encoded


def _version(versions: object, rollout_id: object) -> object:
    first = versions[0] if isinstance(versions, list) and versions else None
    return max(int(str(first)) - 1, 0) if str(first).isdigit() else rollout_id


SLIME = Layout(
    name="slime",
    about=__doc__,
    columns=FIELDS,
    read=read,
    files=r"(?!(.*/)?[^/]*eval_[^/]*$).*\.pt",
    is_templated=True,
    sample="from its documented fields",
)
