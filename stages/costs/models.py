"""How many numbers does a model hold, read and keep for a token?

From the keys of a Hugging Face config.json: decoders with gated feed-forward layers, dense or of
experts, with grouped or latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). Norms and
biases are left out: below 0.1% of the parameters.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stages.tables.errors import AspError, shorten

LARGEST = 10**7  # of a key; counts of parameters stay within 64 bits


@dataclass(frozen=True)
class Model:
    """The counts that costs depend on."""

    name: str
    num_layers: int
    hidden_size: int
    parameters: int
    lookup_parameters: int  # of the input embedding, where it is not the output's: never multiplied
    num_experts: int  # routed, of a layer that has any; 1: dense
    experts_per_token: int
    routed_parameters: int  # of all routed experts of all layers
    kv_values: int  # keys and values that a token leaves behind, in all layers
    kv_parts: int  # into which these can be split among devices without copies

    @property
    def active_parameters(self) -> int:
        """That a token passes, its embedding table included, as model cards count them."""
        routed = self.routed_parameters * self.experts_per_token // self.num_experts
        return self.parameters - self.routed_parameters + routed

    @property
    def multiplied_parameters(self) -> int:
        """That a token is multiplied with."""
        return self.active_parameters - self.lookup_parameters

    def touched_parameters(self, num_tokens: float) -> float:
        """That a step on so many tokens reads, in expectation; experts drawn independently.

        An expert is passed over by a token with chance 1 - k / E, so E (1 - (1 - k / E)^B) are
        touched by B tokens.
        """
        passed_over = math.pow(1 - self.experts_per_token / self.num_experts, num_tokens)
        return self.parameters - self.lookup_parameters - self.routed_parameters * passed_over


class Config:
    """The keys of a config.json; what cannot be meant is refused."""

    def __init__(self, source: str, values: Mapping[str, Any]) -> None:
        self._source = source
        # Models that also see keep the decoder's keys in a table of their own.
        inner = values.get("text_config")
        self._values = inner if isinstance(inner, dict) else values

    def get(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """The whole number under the first of the names that is there."""
        found = [(name, self._values[name]) for name in names if self._values.get(name) is not None]
        if not found and default is not None:
            return default
        if not found:
            raise AspError(
                f"{self._source}: {' or '.join(names)} is missing; give the config.json of a "
                "decoder as Hugging Face has it, or measured costs in place of a model"
            )
        name, value = found[0]
        if type(value) is not int or not least <= value <= LARGEST:
            raise AspError(
                f"{self._source}: {name} is {shorten(json.dumps(value), 40)}; give a whole number "
                f"from {least} to {LARGEST}"
            )
        return value

    def has(self, name: str) -> bool:
        """Whether a key says yes."""
        return bool(self._values.get(name))

    def items(self, name: str) -> list[Any]:
        """A list; empty where there is none."""
        found = self._values.get(name)
        return found if isinstance(found, list) else []


def model_of(name: str, values: Mapping[str, Any], source: str) -> Model:
    """Count the parameters that a config.json describes.

    Args:
        name: Of the model, for words.
        values: The keys.
        source: For messages.

    Raises:
        AspError: A key is missing or cannot be meant, or layers are of a kind that is not counted.
    """
    config = Config(source, values)
    if "linear_attention" in config.items("layer_types") or config.has("linear_num_key_heads"):
        raise AspError(
            f"{source}: has layers of linear attention, which are not counted; give measured "
            "costs in place of a model"
        )
    num_layers, hidden = config.get("num_hidden_layers"), config.get("hidden_size")
    attention, kv_values, kv_parts = _attention(config, hidden)
    num_experts = config.get("num_experts", "num_local_experts", "n_routed_experts", default=1)
    inner = config.get("intermediate_size")
    routed_layers = _routed_layers(config, num_layers) if num_experts > 1 else 0
    expert = 3 * hidden * config.get("moe_intermediate_size", default=inner)
    shared = config.get("n_shared_experts", default=0, least=0) * expert
    shared += 3 * hidden * config.get("shared_expert_intermediate_size", default=0, least=0)
    routed = routed_layers * num_experts * expert
    table = config.get("vocab_size") * hidden
    is_tied = config.has("tie_word_embeddings")
    return Model(
        name=name,
        num_layers=num_layers,
        hidden_size=hidden,
        parameters=(
            num_layers * attention
            + (num_layers - routed_layers) * 3 * hidden * inner
            + routed
            + routed_layers * (shared + hidden * num_experts)  # the router's matrix
            + table * (1 if is_tied else 2)
        ),
        lookup_parameters=0 if is_tied else table,
        num_experts=num_experts,
        experts_per_token=min(config.get("num_experts_per_tok", default=1), num_experts),
        routed_parameters=routed,
        kv_values=num_layers * kv_values,
        kv_parts=kv_parts,
    )


def _attention(config: Config, hidden: int) -> tuple[int, int, int]:
    """Of one layer: parameters; keys and values of a token; parts that these come in."""
    heads = config.get("num_attention_heads")
    latent = config.get("kv_lora_rank", default=0, least=0)
    if not latent:
        groups = config.get("num_key_value_heads", default=heads)
        size = config.get("head_dim", default=max(1, hidden // heads))
        return 2 * hidden * size * (heads + groups), 2 * groups * size, groups
    rotary, plain = config.get("qk_rope_head_dim"), config.get("qk_nope_head_dim")
    value = config.get("v_head_dim")
    queries, rank = heads * (plain + rotary), config.get("q_lora_rank", default=0, least=0)
    of_queries = rank * (hidden + queries) if rank else hidden * queries
    of_latent = hidden * (latent + rotary) + latent * heads * (plain + value)
    return of_queries + of_latent + heads * value * hidden, latent + rotary, 1


def _routed_layers(config: Config, num_layers: int) -> int:
    """Layers with routed experts: not the first few (DeepSeek), each so many-th (Qwen)."""
    first = config.get("first_k_dense_replace", default=0, least=0)
    step = config.get("decoder_sparse_step", "moe_layer_freq", default=1)
    dense = set(map(str, config.items("mlp_only_layers")))
    return sum(
        layer >= first and (layer + 1) % step == 0 and str(layer) not in dense
        for layer in range(num_layers)
    )


_QWEN3 = {"vocab_size": 151_936, "head_dim": 128}
_CONFIGS: dict[str, dict[str, Any]] = {
    # huggingface.co/Qwen/Qwen3-30B-A3B, config.json
    "Qwen3-30B-A3B": _QWEN3
    | {
        "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
        "num_key_value_heads": 4, "intermediate_size": 6144, "moe_intermediate_size": 768,
        "num_experts": 128, "num_experts_per_tok": 8,
    },
    # huggingface.co/Qwen/Qwen3-32B, config.json
    "Qwen3-32B": _QWEN3
    | {
        "num_hidden_layers": 64, "hidden_size": 5120, "num_attention_heads": 64,
        "num_key_value_heads": 8, "intermediate_size": 25_600,
    },
    # huggingface.co/Qwen/Qwen2.5-7B, config.json
    "Qwen2.5-7B": {
        "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18_944, "vocab_size": 152_064,
    },
}  # fmt: skip

MODELS = {name: model_of(name, config, name) for name, config in _CONFIGS.items()}


def parse_config(name: str, data: bytes, source: str) -> Model:
    """The model that the bytes of a config.json describe.

    Raises:
        AspError: They are no JSON object, or of no decoder that is counted.
    """
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        raise AspError(f"{source}: not a JSON file; give a config.json") from None
    if not isinstance(values, dict):
        raise AspError(f"{source}: holds no JSON object; give a config.json")
    return model_of(name, values, source)
