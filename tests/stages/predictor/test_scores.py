import numpy as np
import polars as pl
import pytest

from stages.lengths import lognormal
from stages.predictor.backend import HeldOut, Prediction
from stages.predictor.observations import observe
from stages.predictor.scores import heldout_table, rank, score
from stages.tables.io import conform
from stages.tables.schemas import Heldout, Profile


def test_tau_and_recall_by_hand() -> None:
    observed = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    predicted = np.array([1.0, 3.0, 2.0, 5.0, 4.0])  # two of ten pairs the wrong way round
    found = rank(predicted, observed)
    assert found.tau == pytest.approx((8 - 2) / 10)
    assert found.recall == 0.0  # the longest is placed second
    assert rank(observed, observed).recall == 1.0


def test_tau_b_allows_for_ties() -> None:
    found = rank(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert found.tau == pytest.approx(2 / np.sqrt(2 * 3))


def test_an_order_of_ties_has_no_score() -> None:
    flat, rising = np.ones(5), np.arange(5.0)
    for pair in ((flat, rising), (rising, flat), (rising[:1], rising[:1])):
        assert rank(*pair) == (rank(flat, flat))
        assert rank(*pair).tau is None


@pytest.fixture
def profile() -> pl.DataFrame:
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
    mu = np.log([3.0, 50.0, 6.0])
    return HeldOut(Prediction(mu, np.full(3, 0.5), np.full(3, np.nan)), np.array([0, 1, 1]))


def test_heldout_table_sets_prediction_beside_observation(
    profile: pl.DataFrame, held_out: HeldOut
) -> None:
    table = heldout_table(observe(profile, "profile"), held_out)
    assert table["observed_mean"].to_list() == [2.0, 100.0, 7.0]  # an aborted response is no label
    assert table["observed_longest"].to_list() == [4, 100, 7]
    assert table["observed_one"].to_list() == [4, 100, 7]
    assert table["num_samples"].to_list() == [2, 1, 1]
    assert table["num_capped"].to_list() == [0, 1, 0]
    assert table["fold"].to_list() == [0, 1, 1]
    two = lognormal.expected_longest(np.log([3.0]), np.array([0.5]), np.array([100.0]), 2)
    assert table["expected_longest"][0] == pytest.approx(two[0])
    one = lognormal.expected_tokens(np.log([6.0]), np.array([0.5]), np.array([100.0]))
    assert table["expected_longest"][2] == pytest.approx(one[0], rel=1e-3)
    conform(table, Heldout, "heldout")


def test_a_prompt_whose_responses_were_all_aborted_is_not_scored(
    profile: pl.DataFrame, held_out: HeldOut
) -> None:
    aborted = profile.with_columns(
        pl.when(pl.col("prompt_id") == 2)
        .then(pl.lit("abort"))
        .otherwise(pl.col("finish_reason").cast(pl.String))
        .alias("finish_reason")
    )
    table = heldout_table(observe(aborted, "profile"), held_out)
    assert table["prompt_id"].to_list() == [0, 1]


def test_scores_of_a_perfect_order(profile: pl.DataFrame, held_out: HeldOut) -> None:
    evidence = observe(profile, "profile")
    scores = score(heldout_table(evidence, held_out), evidence, held_out)
    assert scores.predictor["mean"].tau == pytest.approx(1.0)
    assert scores.prompt_length["mean"].tau is not None
    assert scores.prompt_length["mean"].tau < 0
    assert scores.beats_prompt_length
    observed = 2 + 100 + 7
    expected = lognormal.expected_tokens(*held_out.prediction[:2], np.full(3, 100.0)).sum()
    assert scores.mean_bias == pytest.approx(expected / observed - 1)
    assert all(len(line) < 100 for line in scores.lines())
