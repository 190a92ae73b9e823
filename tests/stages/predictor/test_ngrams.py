import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.predictor.ngrams import CHUNK, Characters, Vocabulary, Words, collect


def counted(vocabulary: Vocabulary, texts: list[str]) -> list[dict[str, int]]:
    table = vocabulary.count(texts).toarray()
    return [{g: int(n) for g, n in zip(vocabulary.grams, row, strict=True) if n} for row in table]


def test_words_fold_case_and_digits_and_count_pairs() -> None:
    vocabulary = Vocabulary(Words(), ["solve", "00", "0", "solve 00", "00 solve", "x"])
    assert counted(vocabulary, ["Solve 12, solve 7!"]) == [
        {"solve": 2, "00": 1, "0": 1, "solve 00": 1, "00 solve": 1},
    ]


def test_a_pair_does_not_reach_across_a_word_that_is_not_known() -> None:
    vocabulary = Vocabulary(Words(), ["a", "b", "a b"])
    assert counted(vocabulary, ["a zzz b"]) == [{"a": 1, "b": 1}]


def test_ngrams_do_not_reach_across_texts() -> None:
    assert counted(Vocabulary(Words(), ["a b"]), ["a", "b"]) == [{}, {}]
    assert counted(Vocabulary(Characters(), ["abc"]), ["ab", "c", "abc"]) == [{}, {}, {"abc": 1}]


def test_no_texts_and_no_ngrams() -> None:
    assert Vocabulary(Words(), ["a"]).count([]).shape == (0, 1)
    assert Vocabulary(Words(), []).count(["a", ""]).shape == (2, 0)


texts = st.lists(st.text(alphabet="aB1 ☃.\n", max_size=12), min_size=1, max_size=8)


@given(texts)
def test_words_agree_with_counting_strings(texts: list[str]) -> None:
    vocabulary = collect(Words(), texts, max_grams=10_000, min_prompts=1)
    for text, found in zip(texts, counted(vocabulary, texts), strict=True):
        words = re.findall(r"\w+", re.sub(r"\d", "0", text.lower()))
        pairs = [f"{a} {b}" for a, b in pairwise(words)]
        assert found == Counter(words + pairs)


@given(texts)
def test_characters_agree_with_counting_strings(texts: list[str]) -> None:
    vocabulary = collect(Characters(), texts, max_grams=10_000, min_prompts=1)
    for text, found in zip(texts, counted(vocabulary, texts), strict=True):
        assert found == Counter(text.lower()[i : i + 3] for i in range(len(text) - 2))


@pytest.mark.parametrize("num_texts", [3, CHUNK + 3])
def test_collect_keeps_what_stands_in_the_most_texts(num_texts: int) -> None:
    texts = ["a a a b"] * 2 + ["b"] * (num_texts - 2) + ["c c"]
    vocabulary = collect(Words(), texts, max_grams=2, min_prompts=2)
    assert vocabulary.grams == ("a", "b")  # "a a" and "a b" stand in as many texts as "a"
    assert collect(Words(), texts, 9, num_texts).grams == ("b",)


def test_a_vocabulary_built_from_its_own_ngrams_counts_alike() -> None:
    texts = ["the cat sat", "the cat ran", "a dog sat"]
    first = collect(Words(), texts, 10, 1)
    again = Vocabulary(Words(), first.grams)
    assert (first.count(texts) != again.count(texts)).nnz == 0
