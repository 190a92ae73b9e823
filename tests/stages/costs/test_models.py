"""Parameters, and keys and values, against what model cards say."""

import json

import pytest

from stages.costs.models import MODELS, model_of, parse_config
from stages.tables.errors import AspError

DEEPSEEK_V3 = {  # latent attention, a shared expert, three dense layers first
    "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
    "num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8,
    "n_shared_experts": 1, "moe_intermediate_size": 2048, "intermediate_size": 18432,
    "first_k_dense_replace": 3, "moe_layer_freq": 1, "vocab_size": 129280,
}  # fmt: skip
MIXTRAL = {
    "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    "intermediate_size": 14336, "vocab_size": 32000,
}  # fmt: skip
TINY = {  # one layer of one head: attention 4 x 2 x 2, feed-forward 3 x 2 x 5, table 7 x 2
    "num_hidden_layers": 1, "hidden_size": 2, "num_attention_heads": 1, "intermediate_size": 5,
    "vocab_size": 7, "tie_word_embeddings": True,
}  # fmt: skip


def test_a_tiny_model_by_hand() -> None:
    tiny = model_of("tiny", TINY, "t")
    assert (tiny.parameters, tiny.active_parameters, tiny.lookup_parameters) == (60, 60, 0)
    assert (tiny.kv_values, tiny.kv_parts) == (4, 1)
    untied = model_of("tiny", TINY | {"tie_word_embeddings": False}, "t")
    assert (untied.parameters, untied.multiplied_parameters) == (74, 60)
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 1}
    routed = model_of("tiny", TINY | experts, "t")
    # Attention 16, table 14, router 2 x 4, experts 4 x 3 x 2 x 1, of which a token passes half.
    assert (routed.parameters, routed.active_parameters) == (62, 50)
    # Two tokens pass an expert over with chance 1/4, so 3 of the 4 are read.
    assert routed.touched_parameters(1) == 50 and routed.touched_parameters(2) == 56


@pytest.mark.parametrize(
    ("model", "parameters", "active", "kv_kib"),
    [
        (MODELS["Qwen3-30B-A3B"], 30.53e9, 3.35e9, 96),
        (MODELS["Qwen3-32B"], 32.76e9, 32.76e9, 256),
        (MODELS["Qwen2.5-7B"], 7.616e9, 7.616e9, 56),
        (model_of("V3", DEEPSEEK_V3, "v"), 671.0e9, 37.55e9, 61 * 576 / 512),
        (model_of("Mixtral", MIXTRAL, "m"), 46.70e9, 12.88e9, 128),
    ],
)
def test_public_models(model: object, parameters: float, active: float, kv_kib: float) -> None:
    assert model.parameters == pytest.approx(parameters, rel=5e-4)  # type: ignore[attr-defined]
    assert model.active_parameters == pytest.approx(active, rel=1e-3)  # type: ignore[attr-defined]
    assert 2 * model.kv_values / 1024 == kv_kib  # type: ignore[attr-defined]


def test_the_decoder_of_a_model_that_sees() -> None:
    seeing = json.dumps({"text_config": TINY, "vision_config": {}}).encode()
    assert parse_config("tiny", seeing, "t").parameters == 60


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("{", "t: not a JSON file"),
        ("[]", "t: holds no JSON object"),
        ("{}", "t: num_hidden_layers is missing; give the config.json of a decoder"),
        (json.dumps(TINY | {"hidden_size": -2}), "t: hidden_size is -2; give a whole number"),
        (json.dumps(TINY | {"vocab_size": True}), "t: vocab_size is true; give a whole number"),
        (json.dumps(TINY | {"layer_types": ["linear_attention"]}), "linear attention, which are"),
    ],
)
def test_mistakes(values: str, words: str) -> None:
    with pytest.raises(AspError, match=words):
        parse_config("tiny", values.encode(), "t")
