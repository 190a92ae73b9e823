"""Known coefficients recovered from noisy timings; what the timings cannot tell is said."""

from dataclasses import astuple

import numpy as np
import polars as pl
import pytest

from stages.costs.fit import fit_cost_model
from stages.costs.model import CostModel
from stages.tables.derived import complete_profile
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Profile

TRUE = CostModel(0.02, 0.0001, 0.00005, 2e-8)


def timed(num: int = 2000, noise: float = 0.05, seed: int = 0, **columns: object) -> pl.DataFrame:
    """Responses to 500 prompts, timed as the model says but for log-normal noise."""
    rng = np.random.default_rng(seed)
    tokens = np.minimum(np.ceil(rng.lognormal(5.5, 1, num)), 8192)
    prompt, concurrency = rng.integers(20, 2000, num), rng.choice([4, 16, 64, 256], num)
    frame = pl.DataFrame(
        {
            "prompt_id": np.arange(num) % 500, "prompt_hash": [f"{i % 500:x}" for i in range(num)],
            "prompt": "x", "model": "m", "sample_index": np.arange(num) // 500,
            "prompt_tokens": prompt, "response_tokens": tokens, "finish_reason": "stop",
            "concurrency": concurrency,
        }
    ).with_columns(**columns)  # fmt: skip
    held = frame.select(
        t="response_tokens", p=pl.col("prompt_tokens").fill_null(0), k="concurrency"
    )
    t, p, k = held.cast(pl.Float64).to_numpy().T
    seconds = TRUE.minibatch_seconds(t, k, k * p) * rng.lognormal(0, noise, num)
    first = TRUE.minibatch_seconds(np.ones(num), k, k * p) * rng.lognormal(0, noise, num)
    frame = frame.with_columns(latency_s=seconds, ttft_s=first)
    return conform(frame, Profile, "p", complete_profile)


@pytest.mark.parametrize("seed", range(3))
def test_coefficients_are_recovered_within_ten_percent(seed: int) -> None:
    fit = fit_cost_model(timed(seed=seed), "p")
    np.testing.assert_allclose(astuple(fit.model), astuple(TRUE), rtol=0.1)
    assert fit.num_rows == 2000 and fit.warnings == ()
    # |log-normal noise of 5%|: median 0.67 x 5%, 90th percentile 1.64 x 5%.
    assert fit.median_error == pytest.approx(0.034, abs=0.005)
    assert fit.p90_error == pytest.approx(0.082, abs=0.01)


def test_without_noise_the_fit_is_exact() -> None:
    fit = fit_cost_model(timed(60, noise=0.0), "p")
    np.testing.assert_allclose(astuple(fit.model), astuple(TRUE), rtol=1e-6)
    assert fit.p90_error < 1e-6


def test_without_first_tokens_latencies_alone_are_used() -> None:
    frame = timed().with_columns(ttft_s=pl.lit(None, dtype=pl.Float64))
    np.testing.assert_allclose(astuple(fit_cost_model(frame, "p").model), astuple(TRUE), rtol=0.25)


def test_one_concurrency_keeps_the_ratio_of_the_default_and_says_so() -> None:
    fit = fit_cost_model(timed(concurrency=pl.lit(16)), "p")
    default = CostModel()
    ratio = default.sequence_seconds / default.step_seconds
    assert fit.model.sequence_seconds == pytest.approx(ratio * fit.model.step_seconds)
    slot = fit.model.step_seconds + 16 * fit.model.sequence_seconds
    assert slot == pytest.approx(TRUE.step_seconds + 16 * TRUE.sequence_seconds, rel=0.02)
    (warning,) = fit.warnings
    assert "one concurrency" in warning and "half the concurrency" in warning


def test_costs_that_no_row_tells_are_nothing_and_said() -> None:
    fit = fit_cost_model(timed(prompt_tokens=pl.lit(None, dtype=pl.Int64)), "p")
    assert fit.model.prefill_seconds == 0 and "no prompt_tokens" in fit.warnings[0]
    alike = timed(response_tokens=pl.lit(100.0), prompt_tokens=pl.Series([10, 11] * 1000))
    fit = fit_cost_model(alike, "p")
    assert fit.model.kv_seconds == 0 and "too alike in length" in fit.warnings[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"latency_s": pl.lit(None, dtype=pl.Float64)}, "holds 0 responses with latency_s"),
        ({"concurrency": pl.lit(None, dtype=pl.Int64)}, "--rollouts-concurrency-column"),
        ({"model": pl.Series(["a", "b"] * 1000)}, "timings of 2 models, a, b"),
        ({"prompt_hash": pl.lit("h")}, "the timings are of 1 prompts"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change: dict[str, pl.Expr], words: str) -> None:
    with pytest.raises(AspError, match=words):
        fit_cost_model(timed().with_columns(**change), "p")


def test_rows_all_alike_are_refused() -> None:
    """Prompt and response in one proportion: prefill costs like a step of that many sequences."""
    frame = timed().with_columns(
        prompt_tokens=pl.lit(100),
        response_tokens=pl.lit(100),
        ttft_s=pl.lit(None, dtype=pl.Float64),
    )
    with pytest.raises(AspError, match="too alike to tell 3 costs apart"):
        fit_cost_model(frame, "p")
