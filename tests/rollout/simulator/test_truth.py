"""True lengths: the same whatever the order, recorded where there are records."""

import numpy as np
import polars as pl
import pytest

from rollout.control.uniform import uniform_plan
from rollout.simulator.truth import draw_truth
from stages.lengths.table import complete, distribution
from stages.tables.errors import AspError
from stages.tables.io import conform
from stages.tables.schemas import Lengths


def lengths_of(num_prompts: int, **columns: float) -> pl.DataFrame:
    given = {"mu": 5.0, "sigma": 1.0, "cap": 1000, "prompt_tokens": 7} | columns
    frame = pl.DataFrame({"prompt_id": range(num_prompts)}).with_columns(
        **{name: pl.lit(value) for name, value in given.items()}
    )
    return conform(frame, Lengths, "lengths", complete)


def test_two_orders_generate_the_same_responses() -> None:
    truth = draw_truth(lengths_of(6), {}, 1, 2, seed=1)
    prompts = [4, 2, 0, 5, 1, 3]
    forth = truth.workload(uniform_plan(prompts, 2, 1, 2))
    back = truth.workload(uniform_plan(prompts[::-1], 3, 1, 2))
    assert forth.lengths_g == back.lengths_g[::-1]
    assert forth.prompt_tokens_g == (7,) * 6
    assert forth != draw_truth(lengths_of(6), {}, 1, 2, seed=2).workload(
        uniform_plan(prompts, 2, 1, 2)
    )


def test_recorded_lengths_are_drawn_within_their_prompt() -> None:
    recorded = {0: np.array([3, 4]), 2: np.array([0])}
    truth = draw_truth(lengths_of(3, sigma=0.0), recorded, 2, 50, seed=0)
    samples = truth.samples()
    assert set(samples[0]) == {3, 4}
    assert set(samples[1]) == {round(np.exp(5.0))}
    assert set(samples[2]) == {1}  # an empty response has its first token


def test_samples_share_what_the_prediction_does_not_know() -> None:
    """Variance within prompts is sample_sigma^2, that of prompts' means the rest of sigma^2."""
    lengths = lengths_of(4000, sigma=0.5, sample_sigma=0.3, cap=10**9, mu=9.0)
    logs = np.log(draw_truth(lengths, {}, 1, 20, seed=0).tokens_epn[0])
    assert logs.var(axis=1, ddof=1).mean() == pytest.approx(0.3**2, rel=0.02)
    assert logs.mean(axis=1).var() == pytest.approx(0.4**2 + 0.3**2 / 20, rel=0.06)


def test_no_response_exceeds_the_cap() -> None:
    tokens = draw_truth(lengths_of(50, sigma=1e9), {}, 1, 4, seed=0).tokens_epn
    assert set(tokens.flat) == {1, 1000}


def test_draws_follow_the_shape_of_the_table() -> None:
    lengths = lengths_of(2000, sigma=0.5, sample_sigma=0.4, nu_above=3.0, cap=4000)
    tokens = draw_truth(lengths, {}, 1, 20, seed=0).tokens_epn
    shape = distribution(lengths)[:1]
    assert tokens.mean() == pytest.approx(shape.expected_tokens()[0], rel=0.03)
    for level in (0.1, 0.5, 0.9, 0.99):
        assert np.quantile(tokens, level) == pytest.approx(shape.quantile(level)[0], rel=0.04)


def test_more_responses_than_can_be_simulated_are_one_line() -> None:
    with pytest.raises(AspError, match=r"1,000,000,000 responses, 10,000,000 of each of 100 prom"):
        draw_truth(lengths_of(100), {}, 1, 10**7, seed=0)
