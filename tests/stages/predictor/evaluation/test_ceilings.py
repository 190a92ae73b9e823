from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.predictor.evaluation.ceilings import Ceilings, estimate_ceilings
from stages.predictor.evaluation.components import FEWEST_REPEATED, fit_components
from stages.predictor.evaluation.labels import Samples, make_labels
from stages.predictor.evaluation.measures import Forecast, measure

Draw = Callable[..., Samples]
MANY = 1000
NO_CAP = 1e9


def estimated(samples: Samples, cap: float = NO_CAP) -> Ceilings:
    components = fit_components(samples, seed=0)
    assert components is not None
    return estimate_ceilings(components, samples, np.full(len(samples.starts_p), cap))


@pytest.mark.parametrize(("cap", "num_samples"), [(NO_CAP, 3), (300.0, 3), (NO_CAP, 8)])
def test_ceilings_are_the_scores_of_an_oracle(
    draw_samples: Draw, cap: float, num_samples: int
) -> None:
    samples_p = np.full(MANY, num_samples)
    rng = np.random.default_rng(1)
    # Two kinds of prompts, so that locations are no normal.
    location_p = rng.normal(np.where(rng.random(MANY) < 0.3, 6.5, 4.5), 0.5)
    samples = draw_samples(location_p, 0.5, samples_p, cap)
    ceilings = estimated(samples, cap)
    assert ceilings.within == pytest.approx(0.5, abs=0.04)
    if cap == NO_CAP:  # nothing tells how far past a cap locations lie
        assert ceilings.between == pytest.approx(location_p.std(), abs=0.06)
    assert ceilings.modelled_agreement == pytest.approx(ceilings.observed_agreement, abs=0.03)
    for name, label in make_labels(draw_samples(location_p, 0.5, samples_p, cap, seed=2)).items():
        oracle = measure(Forecast(location_p), label)
        best = ceilings.by_label[name]
        assert best.tau == pytest.approx(oracle.tau, abs=0.025)
        assert best.spearman == pytest.approx(oracle.spearman, abs=0.025)
        assert best.recall_20 == pytest.approx(oracle.recall_20, abs=0.05)
        assert best.concordance == pytest.approx(oracle.concordance, abs=0.02)


def test_a_response_that_runs_on_is_chance_and_no_trait_of_its_prompt(draw_samples: Draw) -> None:
    cap, samples_p = 2000.0, np.full(MANY, 3)
    location_p = np.random.default_rng(0).normal(5.0, 0.7, MANY)

    def drawn(seed: int) -> Samples:
        whole = draw_samples(location_p, 0.3, samples_p, cap, seed)
        runs_on_s = np.random.default_rng(seed).random(3 * MANY) < 0.04
        tokens_s = np.where(runs_on_s, cap, whole.tokens_s)
        return Samples(whole.starts_p, tokens_s, whole.is_cut_s | runs_on_s)

    ceilings = estimated(drawn(0), cap)
    assert ceilings.nu_above is not None and ceilings.nu_below is None
    for name, label in make_labels(drawn(1)).items():
        oracle = measure(Forecast(location_p), label).tau
        # Part of it is still taken for a trait.
        assert oracle - 0.03 < ceilings.by_label[name].tau < oracle + 0.1


def test_a_mean_of_more_samples_has_a_higher_ceiling(draw_samples: Draw) -> None:
    location_p = np.random.default_rng(0).normal(5.0, 0.75, 200)
    few, many = (estimated(draw_samples(location_p, 0.5, np.full(200, n))) for n in (2, 8))
    assert many.by_label["mean"].tau > few.by_label["mean"].tau + 0.1
    assert many.by_label["one"].tau == pytest.approx(few.by_label["one"].tau, abs=0.08)


def test_prompts_that_always_answer_alike_can_be_known(draw_samples: Draw) -> None:
    location_p = np.random.default_rng(0).normal(5.0, 1.0, 200)
    ceilings = estimated(draw_samples(location_p, 0.0, np.full(200, 2)))
    assert ceilings.by_label["one"].tau > 0.93


@settings(max_examples=3)
@given(
    seed=st.integers(0, 10**6),
    between=st.floats(0.2, 1.2),
    within=st.floats(0.1, 1.0),
    cap=st.sampled_from([120.0, NO_CAP]),
)
def test_no_oracle_beats_the_ceiling_by_more_than_chance(
    draw_samples: Draw, seed: int, between: float, within: float, cap: float
) -> None:
    rng = np.random.default_rng(seed)
    location_p = rng.normal(4.5, between, 250)
    samples_p = rng.integers(1, 5, 250)
    samples = draw_samples(location_p, within, samples_p, cap, seed)
    best = estimated(samples, cap).by_label
    for name, label in make_labels(samples).items():
        oracle = measure(Forecast(location_p), label).tau
        if oracle is not None:
            assert oracle < best[name].tau + 0.11  # three deviations of tau at 250 prompts


def test_chance_is_not_measurable_without_repeated_prompts(draw_samples: Draw) -> None:
    location_p = np.linspace(3, 6, 100)
    assert fit_components(draw_samples(location_p, 0.5, np.ones(100, int)), 0) is None
    samples_p = np.where(np.arange(100) < FEWEST_REPEATED - 1, 2, 1)
    assert fit_components(draw_samples(location_p, 0.5, samples_p), 0) is None


def test_equal_responses_are_no_division_by_zero(draw_samples: Draw) -> None:
    for cap in (NO_CAP, 1.0):
        ceilings = estimated(draw_samples(np.zeros(40), 0.0, np.full(40, 2), cap), cap)
        assert ceilings.observed_agreement is None
