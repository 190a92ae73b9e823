"""What do prompts like this one show, mean and spread?

Extremely randomised trees (Geurts, Ernst and Wehenkel 2006) see what no weighted sum does, such as
a family of prompts with a length of its own. They are grown by scikit-learn and kept as plain
arrays, so that predicting needs numpy alone and nothing is pickled. A leaf also remembers how much
its responses differ, which tells prompts of sure length from the others.

Arrays end in an axis legend: _p prompts, _d features, _r trees, _n nodes of all trees in a row,
_w walks of a prompt down a tree.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.predictor.backend import Floats

NUM_TREES = 48
MIN_LEAF = 3  # prompts
FEATURE_SHARE = 0.4  # of the features tried at a split
LEAF = -1  # stands for the feature of a node that is one


class Leaves(NamedTuple):
    """What the leaves that a prompt falls into hold, averaged over the trees."""

    mean_p: Floats  # log tokens
    spread_p: Floats  # log tokens: deviation of the responses there, between and within prompts


@dataclass(frozen=True)
class Forest:
    """Trees in depth-first order: the left child of node i is i + 1."""

    root_r: NDArray[np.int32]
    feature_n: NDArray[np.int16]  # split on this feature, or LEAF
    threshold_n: Floats  # at most this: left
    right_n: NDArray[np.int32]  # the right child
    mean_n: NDArray[np.float32]  # mean log length of the prompts there
    square_n: NDArray[np.float32]  # mean squared log length of their responses

    def predict(self, feature_pd: NDArray[np.float32]) -> Leaves:
        """Walk every prompt down every tree."""
        num_prompts, num_features = feature_pd.shape
        num_trees = len(self.root_r)
        flat_value = np.ascontiguousarray(feature_pd).ravel()
        start_w = np.repeat(np.arange(num_prompts) * num_features, num_trees)
        node_w = np.tile(self.root_r, num_prompts)
        walking_w = np.arange(len(node_w))  # one walk a prompt and tree; those not yet at a leaf
        while len(walking_w):
            node = node_w[walking_w]
            split = self.feature_n[node]
            is_inner = split != LEAF
            walking_w, node, split = walking_w[is_inner], node[is_inner], split[is_inner]
            is_left = flat_value[start_w[walking_w] + split] <= self.threshold_n[node]
            node_w[walking_w] = np.where(is_left, node + 1, self.right_n[node])
        node_pr = node_w.reshape(num_prompts, num_trees)
        mean_p = self.mean_n[node_pr].mean(axis=1, dtype=np.float64)
        square_p = self.square_n[node_pr].mean(axis=1, dtype=np.float64)
        return Leaves(mean_p, np.sqrt(np.maximum(square_p - mean_p**2, 0.0)))


def grow(feature_pd: NDArray[np.float32], target_p: Floats, square_p: Floats, seed: int) -> Forest:
    """Grow the trees.

    Args:
        feature_pd: The training prompts.
        target_p: Mean log length of each prompt's responses.
        square_p: Mean squared log length of each prompt's responses.
        seed: Of the random splits.
    """
    # Imported here: only training needs it, and it takes a second to load.
    from sklearn.ensemble import ExtraTreesRegressor

    model = ExtraTreesRegressor(
        NUM_TREES,
        min_samples_leaf=MIN_LEAF,
        max_features=FEATURE_SHARE,
        random_state=seed,
        n_jobs=-1,
    )
    model.fit(feature_pd, target_p)
    trees = [estimator.tree_ for estimator in model.estimators_]
    root_r = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    return Forest(
        root_r.astype(np.int32),
        np.concatenate(
            [np.where(t.children_left < 0, LEAF, t.feature) for t in trees], dtype=np.int16
        ),
        np.concatenate([t.threshold for t in trees], dtype=np.float64),
        np.concatenate(
            [t.children_right + root for t, root in zip(trees, root_r, strict=True)],
            dtype=np.int32,
        ),
        np.concatenate([_average_in_nodes(t, feature_pd, target_p) for t in trees]),
        np.concatenate([_average_in_nodes(t, feature_pd, square_p) for t in trees]),
    )


def _average_in_nodes(
    tree: object, feature_pd: NDArray[np.float32], value_p: Floats
) -> NDArray[np.float32]:
    """The mean of a value over the training prompts in each leaf; 0 at inner nodes."""
    leaf_p = tree.apply(feature_pd)  # type: ignore[attr-defined]
    num_nodes = tree.node_count  # type: ignore[attr-defined]
    prompts_n = np.bincount(leaf_p, minlength=num_nodes)
    total_n = np.bincount(leaf_p, value_p, minlength=num_nodes)
    return (total_n / np.maximum(prompts_n, 1)).astype(np.float32)
