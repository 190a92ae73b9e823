import numpy as np
import pytest
from scipy import sparse

from stages.predictor import scalars
from stages.predictor.features import FeatureSpace, Projection, Vocabularies


def test_scalars_of_a_text() -> None:
    text = "Add 12 and 3.5?\n\nA) yes\nB) no"
    measured = dict(zip(scalars.NAMES, np.expm1(scalars.measure([text])[0]), strict=True))
    expected = {
        "num_lines": 4, "num_blank_lines": 1, "num_questions": 1, "num_digits": 4,
        "num_numbers": 2, "num_decimals": 1, "num_options": 2, "num_capitals": 3,
        "num_characters": len(text), "longest_line": 15, "largest_number": 12, "last_number": 5,
        "size_without_options": 18, "longest_option": 6, "shortest_option": 5, "mean_option": 5.5,
        "mean_digits_of_options": 0, "num_options_with_digits": 0,
    }  # fmt: skip
    assert {name: measured[name] for name in expected} == pytest.approx(expected, rel=1e-5)


def test_scalars_of_a_text_without_words_or_numbers_are_finite() -> None:
    assert np.isfinite(scalars.measure(["☃", "", " \n "])).all()


def test_projection_spans_the_strongest_directions() -> None:
    rng = np.random.default_rng(0)
    dense = rng.poisson(1.0, (40, 15)).astype(np.float32)
    projection = Projection.fit(sparse.csr_array(dense), num_components=3, seed=0)
    prompts = (dense > 0).sum(axis=0)
    weighed = np.where(dense > 0, 1 + np.log(np.maximum(dense, 1)), 0) * (
        np.log(41 / (1 + prompts)) + 1
    )
    weighed /= np.linalg.norm(weighed, axis=1, keepdims=True)
    exact = np.linalg.svd(weighed, full_matrices=False).Vh[:3].T
    # The same space: every exact direction is its own image under the projector.
    ours = projection.components_gk
    assert ours.T @ ours == pytest.approx(np.eye(3), abs=1e-3)
    assert np.linalg.norm(ours.T @ exact) ** 2 == pytest.approx(3, abs=0.1)
    ours_pg = projection.weigh(sparse.csr_array(dense))
    assert ours_pg.toarray() == pytest.approx(weighed, abs=1e-5)
    assert projection.apply(ours_pg) == pytest.approx(weighed @ ours, abs=1e-4)


def test_a_domain_is_told_where_training_knew_it() -> None:
    texts = ["one two", "two three", "three four"]
    vocabularies = Vocabularies.collect(texts, ["maths", None, "law"])
    assert vocabularies.domains == ("law", "maths")
    told = vocabularies.count(texts, ["maths", "cooking", None]).domains_pk
    assert told.toarray().tolist() == [[0, 1], [0, 0], [0, 0]]
    assert vocabularies.count(texts).domains_pk.toarray().tolist() == [[0, 0]] * 3


def test_ngrams_of_a_single_training_prompt_are_left_out() -> None:
    counts = sparse.csr_array(np.array([[1, 1, 0], [1, 0, 1], [1, 1, 0]], dtype=np.float32))
    assert list(Projection.fit(counts, 5, 0).weight_g > 0) == [True, True, False]


@pytest.mark.parametrize("texts", [["a"], ["?", "!"], ["same", "same", "same"]])
def test_texts_that_share_little_have_few_features(texts: list[str]) -> None:
    vocabularies = Vocabularies.collect(texts)
    counts = vocabularies.count(texts)
    space = FeatureSpace.fit(counts, seed=0)
    features = space.apply(space.weigh(counts))
    assert features.shape[0] == len(texts)
    assert len(scalars.NAMES) <= features.shape[1] <= len(scalars.NAMES) + 2
    assert np.isfinite(features).all()
