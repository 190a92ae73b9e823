import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from stages.predictor.forest import FEATURE_SHARE, MIN_LEAF, NUM_TREES, grow


def test_plain_arrays_predict_what_the_trees_do() -> None:
    rng = np.random.default_rng(0)
    feature = rng.standard_normal((200, 6)).astype(np.float32)
    target = feature[:, 0] + np.sin(3 * feature[:, 1])
    forest = grow(feature, target, target**2, seed=3)
    model = ExtraTreesRegressor(
        NUM_TREES, min_samples_leaf=MIN_LEAF, max_features=FEATURE_SHARE, random_state=3
    ).fit(feature, target)
    fresh = rng.standard_normal((50, 6)).astype(np.float32)
    assert forest.predict(fresh).mean_p == pytest.approx(model.predict(fresh), abs=1e-5)


def test_spread_tells_sure_prompts_from_unsure_ones() -> None:
    feature = np.repeat([[0.0], [1.0]], 50, axis=0).astype(np.float32)
    mean = np.repeat([2.0, 3.0], 50)
    variance = np.repeat([0.0, 0.25], 50)  # between the samples of a prompt
    spread = grow(feature, mean, mean**2 + variance, seed=0).predict(feature).spread_p
    assert spread == pytest.approx(np.sqrt(variance), abs=1e-2)


@pytest.mark.parametrize("num_prompts", [1, 2, 5])
def test_few_prompts_make_a_single_leaf(num_prompts: int) -> None:
    feature = np.zeros((num_prompts, 3), dtype=np.float32)
    leaves = grow(feature, np.full(num_prompts, 4.0), np.full(num_prompts, 16.0), 0).predict(
        feature
    )
    assert leaves.mean_p == pytest.approx(np.full(num_prompts, 4.0))
    assert leaves.spread_p == pytest.approx(np.zeros(num_prompts))
