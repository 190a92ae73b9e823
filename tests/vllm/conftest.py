"""A pretrained chat model, and what keeps vLLM small, offline and to itself."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def small_vllm() -> None:
    """Skip what needs vLLM where `make test-vllm` has not set it up."""
    if find_spec("vllm") is None:
        pytest.skip("make test-vllm sets it up")
    quiet = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    os.environ.update(quiet)


@pytest.fixture(scope="session")
def chat_model() -> Path:
    """SmolLM2 of 135 million parameters, as `make_model.py` lays it down."""
    return Path(os.environ["ASP_VLLM_MODEL"]).resolve()
