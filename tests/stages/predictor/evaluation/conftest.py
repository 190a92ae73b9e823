"""Responses drawn from a known law: locations and spreads of prompts, and their samples."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from stages.predictor.backend import HeldOut, Prediction
from stages.predictor.evaluation.labels import Samples
from stages.tables.io import conform
from stages.tables.schemas import Profile

Floats = np.ndarray


def draw_samples(
    location_p: Floats, spread: float, samples_p: Floats, cap: float = np.inf, seed: int = 0
) -> Samples:
    """Log-normal responses under a cap."""
    prompt_s = np.repeat(np.arange(len(location_p)), samples_p)
    chance_s = np.random.default_rng(seed).standard_normal(len(prompt_s))
    tokens_s = np.maximum(np.round(np.exp(location_p[prompt_s] + spread * chance_s)), 1.0)
    starts_p = np.concatenate(([0], np.cumsum(samples_p)[:-1]))
    return Samples(starts_p, np.minimum(tokens_s, cap), tokens_s >= cap)


@pytest.fixture(name="draw_samples")
def draw_samples_fixture() -> Callable[..., Samples]:
    return draw_samples


@pytest.fixture
def profile() -> pl.DataFrame:
    """Three prompts: two whole samples, one cut, one whole beside an aborted one."""
    frame = pl.DataFrame(
        {
            "prompt_id": [0, 0, 1, 2, 2],
            "prompt_hash": ["a", "a", "b", "c", "c"],
            "prompt": ["long prompt", "long prompt", "b", "c", "c"],
            "model": "m",
            "sample_index": [0, 1, 0, 0, 1],
            "response_tokens": [4, 0, 100, 7, 3],
            "finish_reason": ["stop", "stop", "length", "stop", "abort"],
            "max_response_tokens": [100, 100, 100, None, None],
            "policy_version": 0,
        }
    )
    return conform(frame, Profile, "profile")


@pytest.fixture
def held_out() -> HeldOut:
    """Of these prompts, in the right order."""
    mu_p = np.log([3.0, 50.0, 6.0])
    half_p, unknown_p, normal_p = np.full(3, 0.5), np.full(3, np.nan), np.full(3, np.inf)
    return HeldOut(Prediction(mu_p, half_p, unknown_p, normal_p, normal_p), np.array([0, 1, 1]))
