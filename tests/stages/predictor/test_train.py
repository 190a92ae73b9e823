from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stages.predictor.directory import Stored
from stages.predictor.observations import observe
from stages.predictor.train import TrainConfig, Training, concerns, run, train
from stages.tables.io import conform, read_table
from stages.tables.schemas import Heldout, Profile

MakeProfile = Callable[..., pl.DataFrame]


def trained(profile: pl.DataFrame) -> tuple[Training, list[str]]:
    evidence = observe(conform(profile, Profile, "p"), "p")
    training = train(evidence, TrainConfig())
    return training, concerns(evidence, training)


def test_learns_a_known_law(stored: Stored, predictor_path: Path) -> None:
    scores = stored.scores
    assert scores is not None
    # The best possible order, by family, has a tau of about 0.75: within a family all is chance.
    assert (scores.predictor["mean"].tau or 0) > 0.65
    assert scores.beats_prompt_length
    assert scores.coverage_80 == pytest.approx(0.8, abs=0.04)
    assert scores.coverage_90 == pytest.approx(0.9, abs=0.04)
    assert abs(scores.mean_bias) < 0.1
    assert abs(scores.longest_bias) < 0.1
    spread = stored.predictor.spread
    # Of the spread 0.5, chance between samples is 0.4; the few longest prompts tell it.
    assert spread.sample_share == pytest.approx(0.8, abs=0.15)
    held_out = read_table(str(predictor_path / "heldout.parquet"), Heldout).frame
    assert held_out["prompt_id"].to_list() == list(range(150))
    assert held_out["sigma"].mean() == pytest.approx(0.5, abs=0.08)
    assert set(held_out["fold"]) == set(range(5))


def test_cut_responses_do_not_pull_the_prediction_down(make_profile: MakeProfile) -> None:
    cap = 250  # about the median of the longest family
    training, _ = trained(make_profile(150, samples=2, cap=cap))
    assert training.held_out is not None
    longest = training.held_out.filter(pl.col("prompt_id") % 3 == 2)
    assert longest["num_capped"].sum() > 25
    assert longest["mu"].mean() == pytest.approx(5.5, abs=0.15)


def test_equal_inputs_give_equal_bytes(
    profile_path: Path, predictor_path: Path, tmp_path: Path
) -> None:
    run(str(profile_path), str(tmp_path / "again"), TrainConfig())
    for file in predictor_path.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name


def test_the_seed_matters(profile_path: Path, predictor_path: Path, tmp_path: Path) -> None:
    run(str(profile_path), str(tmp_path / "other"), TrainConfig(seed=1))
    name = "heldout.parquet"
    assert (predictor_path / name).read_bytes() != (tmp_path / "other" / name).read_bytes()


def of_lengths(lengths: list[int], reason: str = "stop") -> Callable[[MakeProfile], pl.DataFrame]:
    def make(make_profile: MakeProfile) -> pl.DataFrame:
        return make_profile(len(lengths), samples=1, cap=100).with_columns(
            pl.Series("response_tokens", lengths), finish_reason=pl.lit(reason)
        )

    return make


@pytest.mark.parametrize(
    ("make", "concern"),
    [
        (of_lengths([10]), "nothing could be held out"),
        (of_lengths([10, 20]), "trained on 2 prompts"),
        (of_lengths([7] * 12), "no better than the length of the prompt"),
        (of_lengths([0] * 12), "no two|no prompt has two samples"),
        (of_lengths([100] * 12, "length"), "every response was cut"),
        (of_lengths([3, 4, 5], "abort"), "nothing could be held out"),
        (lambda m: m(2).with_columns(prompt=pl.lit("?")), "trained on 2|nothing could be held out"),
        (lambda m: m(4).with_columns(max_response_tokens=None), "records no max_response_tokens"),
    ],
)
def test_profiles_that_teach_little_give_a_wide_predictor_and_say_so(
    make_profile: MakeProfile, make: Callable[[MakeProfile], pl.DataFrame], concern: str
) -> None:
    training, found = trained(make(make_profile))
    assert any(pl.Series([text]).str.contains(concern).any() for text in found), found
    mu, sigma, *_ = training.predictor.predict(["anything", "at all ☃"])
    assert np.isfinite(mu).all()
    assert (sigma > 0.85).all()


def test_a_good_profile_raises_no_concern(make_profile: MakeProfile) -> None:
    assert trained(make_profile(120))[1] == []
