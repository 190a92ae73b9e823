"""Which pretrained model reads the prompts?

A directory or a name of the model hub, causal or not, in float32 on a CPU and bfloat16 on a GPU.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub.utils import logging as hub_logging
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

from stages.tables.errors import AspError, log

Loaded = TypeVar("Loaded")
SAMPLE = 16  # values of each parameter that enter the digest


@dataclass(frozen=True)
class Base:
    """A pretrained model and its tokenizer."""

    name: str  # as given: a directory, or a name of the hub
    model: Any  # the transformer without its language head
    tokenizer: Any
    is_causal: bool  # a token sees those before it only

    @property
    def device(self) -> torch.device:
        """Where its weights lie."""
        return torch.device(self.model.device)

    @property
    def num_layers(self) -> int:
        """Transformer layers; the states before the first are layer 0."""
        return int(self.model.config.num_hidden_layers)

    @property
    def width(self) -> int:
        """Numbers in a state."""
        return int(self.model.config.hidden_size)

    def longest_input(self) -> int | None:
        """Tokens that it was made for; None where it does not say."""
        positions = getattr(self.model.config, "max_position_embeddings", None)
        known = [n for n in (positions, self.tokenizer.model_max_length) if n and n < 10**9]
        return min(known, default=None)

    def digest(self) -> str:
        """sha256 over the first values of every parameter, by which another model is noticed."""
        found = hashlib.sha256()
        for name, values in self.model.named_parameters():
            first = values.detach().flatten()[:SAMPLE].float().cpu().numpy()
            found.update(f"{name} {tuple(values.shape)}".encode() + first.tobytes())
        return found.hexdigest()


def load_base(name: str) -> Base:
    """Load a directory, or a name of the model hub.

    Raises:
        AspError: Nothing is there, or it is no such model.
    """
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    hub_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    if not Path(name).is_dir():
        if name.startswith((".", "/", "~")) or name.count("/") > 1:
            raise AspError(f"--base-model {name}: no such directory; give one that holds a model")
        log.info("%s is no directory here: looking for it in the cache and on the model hub", name)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    tokenizer = _load(lambda: AutoTokenizer.from_pretrained(name), name, "a tokenizer")
    model = _load(
        lambda: AutoModel.from_pretrained(name, torch_dtype=dtype), name, "a language model"
    ).to(device)
    model.eval()
    if getattr(model.config, "is_encoder_decoder", False):
        raise AspError(
            f"--base-model {name}: has an encoder and a decoder; give a causal model or an encoder"
        )
    return Base(name, model, tokenizer, _is_causal(model))


def _load(load: Callable[[], Any], name: str, what: str) -> Any:
    try:
        return load()
    except Exception as error:  # a damaged file raises whatever its parser raises
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = (lines[0] if lines else type(error).__name__)[:200]
        way_out = "give another" if Path(name).is_dir() else (
            "without a network, give --base-model a directory that holds the model"
        )  # fmt: skip
        raise AspError(
            f"--base-model {name}: cannot be loaded as {what}: {reason}; {way_out}"
        ) from None


@torch.inference_mode()
def _is_causal(model: Any) -> bool:
    """Whether the first token's state is the same whatever comes after it.

    Asked of the model itself, since neither the name of its class nor its configuration tells for
    every architecture.
    """
    ids = torch.tensor([[1, 2, 3, 4], [1, 4, 2, 3]], device=model.device)
    first, other = model(input_ids=ids).last_hidden_state[:, 0].float()
    return bool(torch.allclose(first, other, rtol=1e-3, atol=1e-4))
