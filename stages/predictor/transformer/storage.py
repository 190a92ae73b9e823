"""How is a transformer predictor kept in a predictor directory?

Beside the files of its embedded part. The base model's own weights are not copied where they were
left alone: the directory names the base, and knows it again by a digest. What was tuned, adapters
or a small base as a whole, is kept in `tuned.safetensors`.
"""

from dataclasses import fields
from typing import Any

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from stages.predictor.embedded import EmbeddedPredictor
from stages.predictor.ridge import CensoredRidge
from stages.predictor.spread import Spread
from stages.predictor.transformer.base import load_base
from stages.predictor.transformer.frozen import Ridge
from stages.predictor.transformer.kernel import KernelRidge
from stages.predictor.transformer.model import LengthModel, needs_adapters
from stages.predictor.transformer.predictor import (
    FrozenReader,
    Reader,
    TransformerPredictor,
    TunedReader,
)
from stages.tables.errors import AspError

TUNED, STATES = "tuned.safetensors", "states.safetensors"


def describe(predictor: TransformerPredictor) -> dict[str, Any]:
    """Its part of the manifest."""
    reader = predictor.reader
    of_kind: dict[str, Any] = {"file": TUNED}
    if isinstance(reader, FrozenReader):
        kind = "linear" if isinstance(reader.ridge, CensoredRidge) else "kernel"
        numbers, _ = _split(reader.ridge)
        of_kind = {"file": STATES, "kind": kind, "ridge": numbers, "sigma": reader.sigma}
    return of_kind | {
        "base_model": reader.base.name,
        "base_digest": predictor.base_digest,
        "max_prompt_tokens": predictor.max_prompt_tokens,
        "share": predictor.share,
        "spread": predictor.spread.to_dict(),
    }


def content(predictor: TransformerPredictor) -> bytes:
    """Its file."""
    if isinstance(predictor.reader, TunedReader):
        weights = predictor.reader.model.tuned()
        return bytes(save_tensors({name: value.contiguous() for name, value in weights.items()}))
    _, arrays = _split(predictor.reader.ridge)
    return bytes(save_arrays({name: np.ascontiguousarray(a) for name, a in arrays.items()}))


def _split(ridge: Ridge) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """The numbers and the arrays of a ridge, by field."""
    values = {item.name: getattr(ridge, item.name) for item in fields(ridge)}
    arrays = {name: v for name, v in values.items() if isinstance(v, np.ndarray)}
    return {name: v for name, v in values.items() if name not in arrays}, arrays


def restore(
    description: dict[str, Any], data: bytes, embedded: EmbeddedPredictor, base_model: str | None
) -> TransformerPredictor:
    """The predictor that was described and kept.

    Args:
        description: Of `describe`.
        data: Of `content`.
        embedded: Its embedded part.
        base_model: Where the base model lies now; None: where it lay in training.

    Raises:
        AspError: The base model is not to be found, or is another one.
        KeyError, RuntimeError, TypeError, ValueError: It is not as written.
    """
    base = load_base(base_model or description["base_model"])
    if base.digest() != description["base_digest"]:
        raise AspError(
            f"--base-model {base.name}: is not the base model that the predictor was trained on; "
            "give that one, or train the predictor anew"
        )
    reader: Reader
    if description["file"] == TUNED:
        model = LengthModel(base, has_adapters=needs_adapters(base))
        model.restore(load_tensors(data))
        reader = TunedReader(base, model)
    else:
        of_kind: type[Ridge] = CensoredRidge if description["kind"] == "linear" else KernelRidge
        ridge = of_kind(**load_arrays(data), **description["ridge"])
        reader = FrozenReader(base, ridge, float(description["sigma"]))
    return TransformerPredictor(
        embedded,
        reader,
        description["base_digest"],
        int(description["max_prompt_tokens"]),
        float(description["share"]),
        Spread.from_dict(description["spread"]),
    )
