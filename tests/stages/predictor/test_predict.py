from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.lengths.table import distribution
from stages.predictor.backend import Prediction
from stages.predictor.directory import Stored
from stages.predictor.embedded import CHUNK
from stages.predictor.predict import Forecaster, PredictConfig, differences, predict
from stages.tables.io import conform
from stages.tables.prompt_stream import PromptBatch
from stages.tables.prompts import prompt_hash
from stages.tables.schemas import Lengths, Prompts


class ByLength:
    """Predicts the length of the text itself."""

    def predict(
        self, texts: Sequence[str], domains: Sequence[str | None] | None = None
    ) -> Prediction:
        mu = np.log1p([len(text) for text in texts])
        normal = np.full(len(mu), np.inf)
        return Prediction(mu, np.full(len(mu), 0.5), np.full(len(mu), np.nan), normal, normal)


def prompts_of(texts: list[str]) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "prompt_id": range(len(texts)),
            "prompt_hash": [prompt_hash(text) for text in texts],
            "prompt": texts,
        }
    )
    return conform(frame, Prompts, "prompts")


@given(
    st.sampled_from([1, 2, 3, 7, 31, 127]).flatmap(
        lambda n: st.lists(st.text("ab", min_size=1, max_size=3), min_size=n, max_size=n)
    ),
    st.integers(1, 9),
)
def test_every_prompt_is_handed_on_once_and_in_order(texts: list[str], n: int) -> None:
    prompts = prompts_of(texts)
    lengths = conform(predict(prompts, ByLength(), 100, n), Lengths, "lengths")
    assert lengths["prompt_id"].to_list() == list(range(len(texts)))
    assert lengths["prompt_hash"].to_list() == prompts["prompt_hash"].to_list()
    assert lengths["mu"].to_list() == pytest.approx([np.log1p(len(text)) for text in texts])
    assert set(lengths["samples_per_prompt"]) == {n}
    assert set(lengths["source"].cast(pl.String)) == {"predicted"}


class Words:
    """A tokenizer with a token a word."""

    def encode_prompt(self, prompt: str) -> list[int]:
        return list(range(len(prompt.split())))


def test_prompt_tokens_are_counted_where_they_are_not_given() -> None:
    texts = ["one two three", "one", "one two"]
    frame = prompts_of(texts).with_columns(prompt_tokens=pl.Series([None, 7, None], dtype=pl.Int64))
    forecast = Forecaster(ByLength(), 100, 1, Words())  # type: ignore[arg-type]
    assert forecast(PromptBatch(frame, texts))["prompt_tokens"].to_list() == [3, 7, 2]


def test_derived_columns_follow_the_distribution(stored: Stored) -> None:
    prompts = prompts_of(
        [
            "Add the numbers 5 and 6 in your head and give nothing but the result, please.",
            "Prove that 91 is prime.\nThen list:\n- every divisor of 91",
        ]
    )
    lengths = predict(prompts, stored.predictor, 300, 8)
    told = distribution(lengths)
    assert lengths["cap"].to_list() == [300, 300]
    assert lengths["expected_tokens"].to_numpy() == pytest.approx(told.expected_tokens())
    assert lengths["expected_longest"].to_numpy() == pytest.approx(told.expected_longest(8))
    assert lengths["expected_tokens"][0] < lengths["expected_tokens"][1]


def test_a_prompt_is_predicted_alike_alone_and_among_many(stored: Stored) -> None:
    texts = [f"Add the numbers {i} and {i * i} please." for i in range(50)]
    many = stored.predictor.predict(texts * (CHUNK // 50 + 1))
    alone = stored.predictor.predict(texts)
    for ours, theirs in zip(many, alone, strict=True):
        assert ours[-50:] == pytest.approx(theirs)


def test_training_unlike_the_profile_is_told(stored: Stored) -> None:
    def told(**changes: object) -> list[str]:
        return list(differences(stored.domain, PredictConfig(**changes)))  # type: ignore[arg-type]

    assert told() == told(temperature=0.6, max_response_tokens=100_000, samples_per_prompt=2) == []
    assert told(max_response_tokens=500) == ["cap 100000 there, 500 here"]
    assert told(temperature=1.0) == ["temperature 0.6 there, 1 here"]
    assert told(samples_per_prompt=8) == ["at most 2 samples a prompt there, 8 here"]
