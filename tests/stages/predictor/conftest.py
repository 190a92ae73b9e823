"""Profiles of a made-up model whose lengths follow a known law, small enough to train on."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stages.predictor.directory import Stored, load_predictor
from stages.predictor.train import TrainConfig, run
from stages.tables.io import write_table
from stages.tables.prompts import prompt_hash
from stages.tables.provenance import Provenance
from stages.tables.schemas import Profile

MakeProfile = Callable[..., pl.DataFrame]
FAMILIES = {  # a kind of prompt, and the mean log length of its answers: not that of the prompt
    "Add the numbers {} and {} in your head and give nothing but the result, please.": 2.0,
    "Explain how to add {} and {}.": 4.0,
    "Prove that {} is prime.\nThen list:\n- every divisor of {}": 5.5,
}
ERROR_SIGMA, SAMPLE_SIGMA = 0.3, 0.4  # log tokens: of a prompt, of a sample


def make_profile(
    num_prompts: int, samples: int = 2, cap: int = 100_000, seed: int = 0
) -> pl.DataFrame:
    """A valid profile: log length = family + error of the prompt + chance of the sample."""
    rng = np.random.default_rng(seed)
    rows = []
    for prompt_id in range(num_prompts):
        template, location = list(FAMILIES.items())[prompt_id % len(FAMILIES)]
        text = template.format(prompt_id, rng.integers(10**6))
        mu = location + ERROR_SIGMA * rng.standard_normal()
        for index in range(samples):
            length = round(np.exp(mu + SAMPLE_SIGMA * rng.standard_normal()))
            rows.append((prompt_id, text, index, min(length, cap), length >= cap))
    frame = pl.DataFrame(
        rows, ["prompt_id", "prompt", "sample_index", "response_tokens", "is_cut"], orient="row"
    )
    return frame.select(
        "prompt_id",
        pl.Series("prompt_hash", map(prompt_hash, frame["prompt"])),
        "prompt",
        pl.lit("m").alias("model"),
        "sample_index",
        "response_tokens",
        pl.when("is_cut").then(pl.lit("length")).otherwise(pl.lit("stop")).alias("finish_reason"),
        pl.lit(cap).alias("max_response_tokens"),
        pl.lit(0.6).alias("temperature"),
        pl.lit(0).alias("policy_version"),
    )


@pytest.fixture(scope="session", name="make_profile")
def make_profile_fixture() -> MakeProfile:
    return make_profile


@pytest.fixture(scope="session")
def profile_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of 150 prompts with two samples each, as a file."""
    path = tmp_path_factory.mktemp("profile") / "profile.parquet"
    write_table(make_profile(150), Profile, str(path), Provenance("test", "profile/1"), False)
    return path


@pytest.fixture(scope="session")
def predictor_path(profile_path: Path) -> Path:
    """The predictor directory trained on it."""
    path = profile_path.with_name("predictor")
    run(str(profile_path), str(path), TrainConfig())
    return path


@pytest.fixture
def stored(predictor_path: Path) -> Stored:
    """The same, loaded."""
    return load_predictor(str(predictor_path))
