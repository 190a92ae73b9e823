import logging
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stages.predictor.transformer.base import load_base
from stages.predictor.transformer.encode import batches, cut_middle, encode, pad, pool


def test_the_chat_template_goes_up_to_where_the_answer_starts(causal_path: Path) -> None:
    base = load_base(str(causal_path))
    (ids,) = encode(base, ["Add."], 100)
    assert base.tokenizer.decode(ids) == "<|start|>user\nAdd.<|end|>\n<|start|>assistant\n"


def test_without_a_template_it_is_the_text(encoder_path: Path) -> None:
    base = load_base(str(encoder_path))
    (ids,) = encode(base, ["Add."], 100)
    assert base.tokenizer.decode(ids) == "Add."


def test_a_long_prompt_loses_its_middle_and_it_is_said(
    causal_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    base = load_base(str(causal_path))
    with caplog.at_level(logging.WARNING, logger="asp"):
        short, long = encode(base, ["a", "first " + "x y " * 99 + "last"], 30)
    assert len(short) < 30 == len(long)
    assert base.tokenizer.decode(long).startswith("<|start|>user\nfirst")
    assert base.tokenizer.decode(long).endswith("last<|end|>\n<|start|>assistant\n")
    assert "1 of 2 prompts are longer than 30 tokens" in caplog.text


def test_no_prompt_is_longer_than_the_base_model_takes(encoder_path: Path) -> None:
    (ids,) = encode(load_base(str(encoder_path)), ["a b " * 999], 5000)
    assert len(ids) == 256  # its positions


def test_an_empty_prompt_has_a_token(encoder_path: Path) -> None:
    assert encode(load_base(str(encoder_path)), [""], 8) == [[0]]


@pytest.mark.parametrize(("limit", "kept"), [(9, "abcdefg"), (5, "abefg"), (4, "abfg"), (2, "ag")])
def test_cut_middle(limit: int, kept: str) -> None:
    assert "".join(map(chr, cut_middle(list(map(ord, "abcdefg")), limit))) == kept


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 200))
def test_batches_hold_every_prompt_once_within_the_tokens(
    lengths: list[int], max_tokens: int
) -> None:
    found = batches(lengths, max_tokens)
    assert sorted(at for batch in found for at in batch) == list(range(len(lengths)))
    for batch in found:
        widest = max(lengths[at] for at in batch)
        assert len(batch) == 1 or widest * len(batch) <= max_tokens
    # Sorted, so no prompt is padded to a width beyond what its neighbour in size needs.
    in_order = [lengths[at] for batch in found for at in batch]
    assert in_order == sorted(lengths, reverse=True)


def test_pooling_by_hand() -> None:
    state = torch.arange(12.0).reshape(2, 3, 2)
    _, mask = pad([[7, 7], [7, 7, 7]], torch.device("cpu"))
    assert pool(state, mask, is_causal=True).tolist() == [[2, 3], [10, 11]]
    assert pool(state, mask, is_causal=False).tolist() == [[1, 2], [8, 9]]
