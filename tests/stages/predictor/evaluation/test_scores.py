import json

import numpy as np
import polars as pl
import pytest

from stages.predictor.backend import HeldOut
from stages.predictor.directory import Stored
from stages.predictor.evaluation.labels import judge
from stages.predictor.evaluation.report import WORDS, lines
from stages.predictor.evaluation.scores import Scores, bootstrap, score
from stages.predictor.features import Vocabularies
from stages.predictor.observations import observe


def test_scores_of_a_perfect_order(profile: pl.DataFrame, held_out: HeldOut) -> None:
    judged = judge(observe(profile, "profile"), held_out)
    texts = judged.observations.texts
    scores = score(judged, Vocabularies.collect(texts).words.count(texts), 0)
    assert scores.predictor["mean"].tau == pytest.approx(1.0)
    by_length = scores.baselines["prompt_length"]["mean"].tau
    assert by_length is not None and by_length < 0
    assert "domain_mean" not in scores.baselines
    observed = 2 + 100 + 7
    expected = held_out.prediction.with_cap(100).expected_tokens().sum()
    assert scores.mean_bias == pytest.approx(expected / observed - 1, abs=0.01)
    assert scores.ceilings is None
    assert any("--rollouts-per-prompt 8" in line for line in lines(scores, is_full=False))


def test_the_table_holds_every_measure_beside_its_ceiling(stored: Stored) -> None:
    scores = stored.scores
    assert scores is not None and scores.ceilings is not None
    table = lines(scores, is_full=True)
    assert all(len(line) <= 105 for line in table)
    for words in WORDS.values():
        assert sum(line.strip().startswith(words) for line in table) == 3, words
    ceiling = scores.ceilings.by_label["mean"].tau
    assert ceiling is not None and scores.predictor["mean"].tau is not None
    (line, *_) = (line for line in table[10:] if "Kendall" in line)
    assert f"{ceiling:.3f}" in line
    assert f"{scores.predictor['mean'].tau / ceiling:.0%}" in line
    assert len(lines(scores, is_full=False)) < len(table)


def test_the_interval_holds_the_score_and_the_lead(stored: Stored) -> None:
    scores = stored.scores
    assert scores is not None and scores.lead is not None
    low, high = scores.intervals["mean"]["tau"] or (0, 0)
    assert low < (scores.predictor["mean"].tau or 0) < high < low + 0.2
    assert scores.lead[0] > 0 and scores.beats_prompt_length


def test_scores_survive_json(stored: Stored) -> None:
    assert stored.scores is not None
    kept = json.dumps(stored.scores.to_dict())
    assert json.dumps(Scores.from_dict(json.loads(kept)).to_dict()) == kept


def test_bootstrap_of_a_mean() -> None:
    value_p = np.random.default_rng(0).normal(size=400)
    low, high = bootstrap(lambda rows: float(value_p[rows].mean()), 400, 0) or (0, 0)
    assert high - low == pytest.approx(2 * 1.645 / 20, rel=0.15)
    assert bootstrap(lambda rows: None, 5, 0) is None
