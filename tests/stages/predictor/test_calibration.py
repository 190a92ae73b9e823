import numpy as np
import pytest

from stages.lengths.distribution import LengthDistribution
from stages.predictor.backend import Observations
from stages.predictor.calibration import calibrate, calibrate_domains, coverage


def test_coverage_by_hand() -> None:
    z = np.array([0.0, 1.2, 1.3, -1.3])
    none, one = np.zeros(4, dtype=bool), np.array([True, False, False, False])
    assert coverage(z, none, np.ones(4), 0.8) == pytest.approx(2 / 4)
    assert coverage(z, none, np.array([1.0, 1.0, 0.0, 0.0]), 0.8) == 1.0
    # Cut at the median: beyond it lies half the mass, 0.4 of it within the interval.
    assert coverage(z, one, np.ones(4), 0.8) == pytest.approx((0.8 + 1) / 4)


def normal_errors(sigma_p: np.ndarray, domains: tuple[str | None, ...] | None) -> Observations:
    error = sigma_p * np.random.default_rng(0).standard_normal(len(sigma_p))
    texts = [str(p) for p in range(len(error))]
    return Observations(
        texts, np.arange(len(error)), 5 + error, np.zeros(len(error), dtype=bool), domains
    )


def test_a_scale_that_is_off_is_mended() -> None:
    told = LengthDistribution.of(np.full(4000, 5.0), 0.5, np.inf)
    assert calibrate(told, normal_errors(np.full(4000, 0.4), None)) == pytest.approx(0.8, rel=0.04)


def test_a_small_domain_leans_on_the_others() -> None:
    is_small = np.arange(2000) < 10
    domains = (*np.where(is_small, "small", "large")[:-1].tolist(), None)
    observations = normal_errors(np.where(is_small, 0.25, 0.5), domains)
    told = LengthDistribution.of(np.full(2000, 5.0), 0.5, np.inf)
    factors = calibrate_domains(told, observations, scale=1.0)
    assert set(factors) == {"large", "small"}
    assert factors["large"] == pytest.approx(1.0, abs=0.04)
    assert 0.75 < factors["small"] < 1.0  # its own is about 0.5
