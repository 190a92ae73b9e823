"""The blend of one prompt's prediction with its own responses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from stages.predictor.refresh.evidence import Observed
from stages.predictor.refresh.posterior import Belief, blend, update


def responses(
    values: list[float],
    cut: list[bool] | None = None,
    versions: list[int] | None = None,
    prompts: list[int] | None = None,
) -> Observed:
    size = len(values)
    return Observed(
        np.array(prompts or [0] * size, dtype=np.int64),
        np.array(versions or [0] * size, dtype=np.int64),
        np.array(values, dtype=np.float64),
        np.array(cut or [False] * size, dtype=bool),
    )


def belief(mean: float, variance: float) -> Belief:
    return Belief(np.array([mean]), np.array([variance]))


def one_update(prior: Belief, chance: float, observed: Observed) -> tuple[float, float]:
    group = np.zeros(len(observed.prompt_s), dtype=np.int64)
    found = update(prior, np.array([chance]), group, observed)
    return float(found.mean_p[0]), float(found.variance_p[0])


def test_by_hand() -> None:
    """Prior precision 1 / 0.5 = 2, two responses 2 / 0.25 = 8: a fifth stays with the prior."""
    mean, variance = one_update(belief(5.0, 0.5), 0.25, responses([6.0, 7.0]))
    assert mean == pytest.approx((2 * 5.0 + 4 * 6.0 + 4 * 7.0) / 10)
    assert variance == pytest.approx(0.1)


@settings(max_examples=50)
@given(
    bound=st.floats(-3, 6), chance=st.floats(0.003, 2), count=st.integers(1, 16),
    seen=st.lists(st.floats(-2, 2), max_size=4),
)  # fmt: skip
def test_cut_responses_have_the_exact_posterior(
    bound: float, chance: float, count: int, seen: list[float]
) -> None:
    """Against a sum over a fine grid of prior x densities x chances to lie beyond."""
    theta = np.linspace(-10, 10, 20_001)
    log_density = -(theta**2) / 2
    for value in seen:
        log_density -= (value - theta) ** 2 / (2 * chance)
    with np.errstate(divide="ignore"):
        log_density += count * np.log(ndtr((theta - bound) / np.sqrt(chance)))
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = float(density @ theta)
    variance = float(density @ (theta - mean) ** 2)
    observed = responses([bound] * count + seen, [True] * count + [False] * len(seen))
    found = one_update(belief(0.0, 1.0), chance, observed)
    assert found == pytest.approx((mean, variance), rel=2e-4, abs=2e-4)


def test_at_least_so_long_never_shortens() -> None:
    mean, variance = one_update(belief(5.0, 0.3), 0.2, responses([2.0], [True]))
    assert mean == pytest.approx(5.0, abs=1e-4) and mean >= 5.0
    assert variance == pytest.approx(0.3, abs=1e-4)
    longer, _ = one_update(belief(5.0, 0.3), 0.2, responses([7.0], [True]))
    exact, _ = one_update(belief(5.0, 0.3), 0.2, responses([7.0]))
    assert longer > exact > 5.0


def test_old_versions_weigh_less_by_the_walk() -> None:
    """One response 100 versions back, as if its prompt had wandered 100 x 0.004 since."""
    observed = responses([1.0, 3.0], versions=[0, 100])
    found = blend(belief(0.0, 0.5), np.array([0.2]), observed, 0.004, (0, 100))
    first = one_update(belief(0.0, 0.5), 0.2, responses([1.0]))
    second = one_update(belief(first[0], first[1] + 0.4), 0.2, responses([3.0]))
    assert (found.mean_p[0], found.variance_p[0]) == pytest.approx(second)


@given(st.data())
def test_in_parts_is_at_once(data: st.DataObject) -> None:
    """The belief after some versions is the prior of the next ones, exactly where none is cut."""
    size = data.draw(st.integers(2, 12))
    versions = sorted(data.draw(st.lists(st.integers(0, 40), min_size=size, max_size=size)))
    values = data.draw(st.lists(st.floats(0, 9), min_size=size, max_size=size))
    prompts = data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    observed = responses(values, versions=versions, prompts=prompts)
    prior = Belief(np.array([4.0, 5.0, 6.0]), np.array([0.2, 0.4, 0.8]))
    chance = np.array([0.1, 0.2, 0.3])
    split = data.draw(st.sampled_from(versions))
    is_early = observed.version_s <= split
    at_once = blend(prior, chance, observed, 0.01, (versions[0], versions[-1]))
    early = blend(prior, chance, observed.subset(is_early), 0.01, (versions[0], split))
    late = blend(early, chance, observed.subset(~is_early), 0.01, (split, versions[-1]))
    np.testing.assert_allclose(late.mean_p, at_once.mean_p, atol=1e-9)
    np.testing.assert_allclose(late.variance_p, at_once.variance_p, atol=1e-9)
