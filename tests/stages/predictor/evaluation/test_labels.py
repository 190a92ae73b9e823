import numpy as np
import polars as pl
import pytest

from stages.lengths.distribution import LengthDistribution
from stages.predictor.backend import HeldOut
from stages.predictor.evaluation.labels import Samples, judge, make_labels
from stages.predictor.observations import observe
from stages.tables.io import conform
from stages.tables.schemas import Heldout


def test_labels_by_hand() -> None:
    cut = np.array([False, True, False])
    labels = make_labels(Samples(np.array([0, 2]), np.array([2.0, 8.0, 5.0]), cut))
    assert labels["one"].tokens_p.tolist() == [2.0, 5.0]
    assert labels["mean"].tokens_p.tolist() == [5.0, 5.0]
    assert labels["longest"].tokens_p.tolist() == [8.0, 5.0]
    assert labels["mean"].log_p == pytest.approx([np.log(4.0), np.log(5.0)])
    assert labels["one"].is_cut_p.tolist() == [False, False]
    assert labels["mean"].is_cut_p.tolist() == labels["longest"].is_cut_p.tolist() == [True, False]


def test_prediction_stands_beside_observation(profile: pl.DataFrame, held_out: HeldOut) -> None:
    judged = judge(observe(profile, "profile"), held_out)
    table = judged.table
    assert table["observed_mean"].to_list() == [2.0, 100.0, 7.0]  # an aborted response is no label
    assert table["observed_longest"].to_list() == [4, 100, 7]
    assert judged.labels["one"].tokens_p.tolist() == [4.0, 100.0, 7.0]
    assert table["num_samples"].to_list() == [2, 1, 1]
    assert table["num_capped"].to_list() == [0, 1, 0]
    assert table["fold"].to_list() == [0, 1, 1]
    two = LengthDistribution.of(np.log(3), 0.5, 100).expected_longest(2)
    assert table["expected_longest"][0] == pytest.approx(two[0])
    one = LengthDistribution.of(np.log(6), 0.5, 100).expected_tokens()
    assert table["expected_longest"][2] == pytest.approx(one[0], rel=1e-3)
    assert judged.size_p.tolist() == [11.0, 1.0, 1.0]
    conform(table, Heldout, "heldout")


def test_prompts_that_cannot_be_judged_are_left_out(
    profile: pl.DataFrame, held_out: HeldOut
) -> None:
    aborted = profile.with_columns(
        pl.when(pl.col("prompt_id") == 2)
        .then(pl.lit("abort"))
        .otherwise(pl.col("finish_reason").cast(pl.String))
        .alias("finish_reason")
    )
    evidence = observe(aborted, "profile")
    assert judge(evidence, held_out).table["prompt_id"].to_list() == [0, 1]
    one_fold = held_out._replace(fold_p=np.array([0, -1, -1]))
    judged = judge(evidence, one_fold)
    assert judged.table["prompt_id"].to_list() == [0]
    assert judged.observations.texts == ["long prompt"]
