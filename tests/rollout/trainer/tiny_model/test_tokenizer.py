"""The tiny model's tokenizer."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from rollout.trainer.tiny_model.puzzles import Maze
from rollout.trainer.tiny_model.tokenizer import make_tokenizer

TOKENIZER = make_tokenizer((*Maze.phrases, "<answer>", "</answer>"))


def test_a_phrase_is_a_token_and_all_else_is_bytes() -> None:
    assert TOKENIZER.tokenize("0a1 1b1 <answer>1</answer>é") == [
        "0", "a1 ", "1", "b1 ", "<answer>", "1", "</answer>", "Ã", "©"
    ]  # fmt: skip


@settings(max_examples=30)
@given(st.text(max_size=40))
def test_any_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER(text).input_ids) == text


def test_it_loads_as_any_other(tmp_path: Path) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "Fewest steps from a1 to b2 through a1 b1 ?\n"
    assert loaded(text).input_ids == TOKENIZER(text).input_ids
    assert (loaded.eos_token, loaded.padding_side) == ("<|end|>", "left")
