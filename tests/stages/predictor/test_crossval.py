import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stages.predictor.crossval import assign_folds
from stages.tables.prompts import normalised_text


@given(
    st.lists(st.text(alphabet="aA b\n", max_size=4), min_size=1, max_size=30),
    st.integers(2, 7),
    st.integers(0, 3),
)
def test_folds_never_split_a_text(texts: list[str], num_folds: int, seed: int) -> None:
    fold = assign_folds(texts, num_folds, seed)
    of_text: dict[str, int] = {}
    for text, number in zip(texts, fold, strict=True):
        assert of_text.setdefault(normalised_text(text), number) == number
    assert set(fold) == set(range(min(num_folds, len(of_text))))
    assert list(fold) == list(assign_folds(texts, num_folds, seed))


def test_folds_are_of_equal_size_and_follow_the_seed() -> None:
    texts = [f"prompt {i}" for i in range(103)]
    fold = assign_folds(texts, 5, seed=0)
    assert sorted(np.bincount(fold)) == [20, 20, 21, 21, 21]
    assert list(fold) != list(assign_folds(texts, 5, seed=1))


def test_numbers_make_prompts_different() -> None:
    assert (
        normalised_text("Add  1\n and 2")
        == normalised_text("add 1 and 2")
        != normalised_text("add 1 and 3")
    )
