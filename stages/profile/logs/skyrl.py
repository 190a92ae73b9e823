"""`trainer.dump_data_batch=true` makes SkyRL write `dumped_data/global_step_N_training_input.pkl`.

They lie in `trainer.export_path`. A pickle of the padded batch of one training step, which is read
as data: no code of it runs. The length is exact: `loss_mask` marks the tokens that were generated,
and where it is all 0 (a response left out of the loss) `response_mask` counts, what tools said
included. There is no text and no id: prompts are known by their token ids, and `--tokenizer` turns
them into text. No finish reason. With step-wise training every turn is a row, and those after the
first join no prompt.

`policy_version` is the step of the file's name less 1; fully asynchronous training may use older
ones.

Read in skyrl/train/trainer.py, `dump_data`, and skyrl/backends/skyrl_train/training_batch.py (after
0.3.0).
"""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stages.profile.logs.layout import FIELDS, Layout, step_in
from stages.profile.logs.pickles import Ignored, read_pickle
from stages.tables.errors import AspError

_MODULES = ("skyrl.backends.skyrl_train.training_batch", "skyrl_train.training_batch")
_KNOWN: dict[tuple[str, str], Any] = {
    **{(module, "_rebuild_tensor_batch"): lambda batch, state: state for module in _MODULES},
    **{(module, "TrainingInputBatch"): Ignored for module in _MODULES},
    ("torch", "device"): Ignored,
    ("numpy", "dtype"): Ignored,  # numbers of numpy among the metrics
    ("numpy._core.multiarray", "scalar"): Ignored,
    ("numpy.core.multiarray", "scalar"): Ignored,
}


def read(name: str, data: bytes) -> pl.DataFrame:
    """A file's rows: b responses, of t tokens with their prompts, r without."""
    state = read_pickle(name, data, _KNOWN)
    batch = state.get("batch_dict") if isinstance(state, dict) else None
    if not isinstance(batch, dict):
        raise AspError(f"{name}: the pickle holds no training batch of SkyRL")
    ids_bt = _array(batch, "sequences", name)
    is_real_bt = _array(batch, "attention_mask", name) != 0
    num_response_b = (_array(batch, "response_mask", name) != 0).sum(axis=1)
    num_generated_b = (_array(batch, "loss_mask", name) != 0).sum(axis=1)
    if not (is_real_bt.shape == ids_bt.shape and len(num_response_b) == len(ids_bt)):
        raise AspError(f"{name}: the arrays of its training batch do not fit each other")
    prompts = [
        ids_t[is_real_t][: is_real_t.sum() - num_response].tolist()
        for ids_t, is_real_t, num_response in zip(ids_bt, is_real_bt, num_response_b, strict=True)
    ]
    step = step_in(name, r"global_step_(\d+)_")
    return pl.DataFrame(
        {
            "prompt_ids": pl.Series(prompts, dtype=pl.List(pl.Int64)),
            "prompt_tokens": [len(prompt) for prompt in prompts],
            "response_tokens": np.where(num_generated_b > 0, num_generated_b, num_response_b),
            "policy_version": [None if step is None else max(step - 1, 0)] * len(prompts),
        },
        schema_overrides={"policy_version": pl.Int64, "prompt_tokens": pl.Int64},
    )


def _array(batch: dict[str, Any], key: str, name: str) -> NDArray[Any]:
    """A tensor of two axes, which SkyRL writes as bytes with shape and type."""
    held = batch.get(key)
    try:
        dtype = np.dtype(held["dtype"])  # type: ignore[index]
        array = np.frombuffer(held["data"], dtype).reshape(held["shape"])  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or array.dtype.kind not in "iufb":
        raise AspError(f"{name}: the training batch has no readable array {key!r} of two axes")
    return array


SKYRL = Layout(
    name="skyrl",
    about=__doc__,
    columns=FIELDS | {"prompt_ids": ("prompt_ids",)},
    read=read,
    files=r"(.*/)?global_step_\d+_training_input\.pkl",
    is_templated=True,
    needs_tokenizer=True,
    sample="from its documented fields",
)
