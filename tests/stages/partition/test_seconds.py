"""Expected seconds of candidate minibatches against the cost model, and the cut by brute force."""

import itertools

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr

from stages.costs.model import CostModel
from stages.lengths.table import complete, distribution
from stages.partition.config import PartitionConfig
from stages.partition.expected_padding import price_windows
from stages.partition.stage import partition
from stages.tables.io import conform
from stages.tables.schemas import Lengths

MODEL = CostModel(0.02, 0.001, 0.0005, 1e-6)


def lengths_of(num: int, spread: float, seed: int = 0, n: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "prompt_id": range(num),
            "prompt_tokens": rng.integers(1, 900, num),
            "mu": rng.normal(5, 1, num),
            "sigma": spread * rng.uniform(0.5, 1, num),
            "cap": 2048,
            "samples_per_prompt": n,
        }
    )
    return conform(frame, Lengths, "x", complete)


def expected_seconds(prompts: pl.DataFrame, model: CostModel) -> float:
    """Sum over token counts of the model's seconds times the chance of that longest."""
    n = prompts["samples_per_prompt"][0]
    t = np.arange(0.5, 2048.5, 0.5)
    mu, sigma, tokens = (prompts[c].to_numpy()[:, None] for c in ("mu", "sigma", "prompt_tokens"))
    within = ndtr((np.log(t) - mu) / sigma) if sigma.any() else (np.log(t) >= mu).astype(float)
    within[:, t >= 2048] = 1.0
    chance = np.diff((within**n).prod(axis=0), prepend=0.0)
    sequences = np.full(len(t), float(n * len(prompts)))
    return float(chance @ model.minibatch_seconds(t - 0.25, sequences, float(n * tokens.sum())))


def least_by_brute_force(ordered: pl.DataFrame, lo: int, hi: int, model: CostModel) -> float:
    num = len(ordered)
    price = {
        (i, j): expected_seconds(ordered[i:j], model)
        for i in range(num) for j in range(i + lo, min(i + hi, num) + 1)
    }  # fmt: skip
    totals = []
    for num_cuts in range(num):
        for cuts in itertools.combinations(range(1, num), num_cuts):
            windows = list(itertools.pairwise([0, *cuts, num]))
            if all(window in price for window in windows):
                totals.append(sum(price[window] for window in windows))
    return min(totals)


@pytest.mark.parametrize("num_samples", [1, 8])
@pytest.mark.parametrize("model", [CostModel(), MODEL])
def test_prices_are_the_expected_seconds(num_samples: int, model: CostModel) -> None:
    frame = lengths_of(20, 1.0, n=num_samples)
    tokens = frame["prompt_tokens"].cast(pl.Float64).to_numpy()
    table = price_windows(distribution(frame), num_samples, 2, 6, model, tokens)
    for j, size in itertools.product(range(2, 21), range(2, 7)):
        if size <= j:
            exact = expected_seconds(frame[j - size : j], model)
            assert table[j, size - 2] == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("model", [CostModel(), CostModel(0.001, 0.01), MODEL])
@pytest.mark.parametrize("spread", [0.0, 0.8])
@pytest.mark.parametrize("num_prompts", [6, 12])
def test_the_cut_is_the_best_by_brute_force(
    num_prompts: int, spread: float, model: CostModel
) -> None:
    frame = lengths_of(num_prompts, spread, seed=num_prompts)
    config = PartitionConfig(3, 0.7, objective="seconds", cost_model=model)
    minibatches, results = partition(frame, config)
    ordered = frame[minibatches["prompt_ids"].explode().to_list()]
    least = least_by_brute_force(ordered, 1, 5, model)
    assert results["objective_value"] == pytest.approx(least, rel=0.01)
    assert results["gap"] == 0.0
    # What is written of each minibatch adds up to what was minimised.
    total = minibatches["predicted_seconds"].sum()
    assert total == pytest.approx(results["objective_value"], rel=1e-9 if spread == 0 else 0.01)


def test_where_steps_are_dear_minibatches_are_as_few_as_allowed() -> None:
    config = PartitionConfig(8, 0.5, objective="seconds", cost_model=CostModel(1.0, 0.0, 0.0, 0.0))
    assert len(partition(lengths_of(48, 0.5), config)[0]) == 4  # of 12
    dear_slots = PartitionConfig(8, 0.5, objective="seconds", cost_model=CostModel(1e-6, 1.0))
    assert len(partition(lengths_of(48, 0.5), dear_slots)[0]) == 12  # of 4


def test_seconds_are_sorted_by_the_upper_quantile_unless_told() -> None:
    assert PartitionConfig(objective="seconds").sort_by == "upper"
    assert PartitionConfig(objective="seconds", by="expected").sort_by == "expected"
