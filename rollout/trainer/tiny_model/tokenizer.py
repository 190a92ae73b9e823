"""How is a puzzle's text cut into tokens?

Into bytes, so that every text can be read; what puzzles say again and again is one token.
"""

from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

END, PADDING = "<|end|>", "<|padding|>"


def make_tokenizer(phrases: Iterable[str]) -> Any:
    """A tokenizer of bytes and phrases, as a Hugging Face fast tokenizer."""
    tokenizer = Tokenizer(
        BPE(vocab={byte: i for i, byte in enumerate(sorted(ByteLevel.alphabet()))}, merges=[])
    )
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in phrases])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PADDING,
        padding_side="left",  # generation goes on at the right
        clean_up_tokenization_spaces=False,
    )
