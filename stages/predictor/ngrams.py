"""Which n-grams does a text hold, and how many of each?

Two alphabets: words (lower case, digits folded to 0), taken alone and in pairs; and characters
(lower case), taken in triples. A text becomes a row of numbered symbols, and an n-gram one 64-bit
code, so that counting is sorting: several times faster in numpy than a dictionary of strings, and
exact, since nothing is hashed.

Arrays end in an axis legend: _p prompts, _g n-grams, _t symbols of all texts in a row.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Ints = NDArray[np.int64]

UNKNOWN = 0  # the symbol of what no n-gram of a vocabulary holds
CHUNK = 1024  # texts counted at once, which bounds memory
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")


class Alphabet(Protocol):
    """How a text becomes symbols, and an n-gram a string and back."""

    orders: tuple[int, ...]  # symbols in an n-gram
    bits: int  # of a symbol; max(orders) x bits is below 64

    def learn(self, text: str) -> None:
        """Number the symbols of a text that have no number yet."""
        ...

    def symbols(self, text: str) -> Ints:
        """The text as symbols, UNKNOWN where one has no number."""
        ...

    def spell(self, symbols: Iterable[int]) -> str:
        """The n-gram of these symbols as text; `symbols` of it gives them back."""
        ...


class Words:
    """Words, alone and in pairs. Digits are folded: a number is known by how many it has."""

    orders: tuple[int, ...] = (1, 2)
    bits = 31

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._words: list[str] = []

    def learn(self, text: str) -> None:
        """Number the words of a text that have no number yet."""
        for word in _split(text):
            if word not in self._number:
                self._words.append(word)
                self._number[word] = len(self._words)

    def symbols(self, text: str) -> Ints:
        """A number a word."""
        words = _split(text)
        return np.fromiter(map(self._number.get, words, repeat(UNKNOWN)), np.int64, len(words))

    def spell(self, symbols: Iterable[int]) -> str:
        """Words with a space between."""
        return " ".join(self._words[symbol - 1] for symbol in symbols)


class Characters:
    """Characters in threes, across words and lines. A symbol is a Unicode code point."""

    orders: tuple[int, ...] = (3,)
    bits = 21

    def learn(self, text: str) -> None:
        """Nothing to learn: Unicode has numbered them."""

    def symbols(self, text: str) -> Ints:
        """A code point a character."""
        encoded = text.lower().encode("utf-32-le", "surrogatepass")
        return np.frombuffer(encoded, dtype="<u4").astype(np.int64)

    def spell(self, symbols: Iterable[int]) -> str:
        """The characters in a row."""
        return "".join(map(chr, symbols))


def _split(text: str) -> list[str]:
    return _WORD.findall(_DIGIT.sub("0", text.lower()))


class Vocabulary:
    """The n-grams that are counted, each a column."""

    def __init__(self, alphabet: Alphabet, grams: Sequence[str]) -> None:
        for gram in grams:
            alphabet.learn(gram)
        self.grams = tuple(grams)
        self._alphabet = alphabet
        code_g = np.array([_code_of(alphabet, gram) for gram in grams], dtype=np.int64)
        self._column_g = np.argsort(code_g, kind="stable")
        self._code_g = code_g[self._column_g]

    def count(self, texts: Sequence[str]) -> sparse.csr_array:
        """Occurrences of each n-gram in each text: float32, prompts x n-grams."""
        chunks = [self._count_chunk(chunk) for chunk in _chunks(texts)]
        if not chunks:
            return sparse.csr_array((0, len(self.grams)), dtype=np.float32)
        return sparse.csr_array(sparse.vstack(chunks, format="csr"))

    def _count_chunk(self, texts: Sequence[str]) -> sparse.csr_array:
        text_t, code_t = _codes(self._alphabet, texts)
        place_t = np.searchsorted(self._code_g, code_t)
        is_known_t = place_t < len(self._code_g)
        is_known_t[is_known_t] = self._code_g[place_t[is_known_t]] == code_t[is_known_t]
        column_t = self._column_g[place_t[is_known_t]]
        return _table(text_t[is_known_t], column_t, (len(texts), len(self.grams)))


def collect(
    alphabet: Alphabet, texts: Sequence[str], max_grams: int, min_prompts: int
) -> Vocabulary:
    """The vocabulary of the n-grams that stand in the most texts.

    Args:
        alphabet: An empty one; it learns the symbols of the texts.
        max_grams: Largest number of n-grams kept; ties go to the smaller code.
        min_prompts: n-grams in fewer texts are left out.
    """
    code_g, prompts_g = np.empty(0, np.int64), np.empty(0, np.int64)
    for chunk in _chunks(texts):
        for text in chunk:
            alphabet.learn(text)
        text_t, code_t = _codes(alphabet, chunk)
        chunk_code_g, place_t = np.unique(code_t, return_inverse=True)
        held = _table(text_t, place_t, (len(chunk), len(chunk_code_g)))
        chunk_prompts_g = np.bincount(held.indices, minlength=len(chunk_code_g))
        code_g, place_g = np.unique(np.concatenate((code_g, chunk_code_g)), return_inverse=True)
        prompts_g = np.bincount(
            place_g, np.concatenate((prompts_g, chunk_prompts_g)), minlength=len(code_g)
        ).astype(np.int64)
    kept = np.argsort(-prompts_g, kind="stable")[:max_grams]
    kept = kept[prompts_g[kept] >= min_prompts]
    grams = sorted(alphabet.spell(_symbols_of(alphabet, int(code))) for code in code_g[kept])
    return Vocabulary(type(alphabet)(), grams)


def _chunks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK))


def _codes(alphabet: Alphabet, texts: Sequence[str]) -> tuple[Ints, Ints]:
    """The code of every n-gram of known symbols, with the index of its text."""
    symbols = [alphabet.symbols(text) for text in texts]
    symbol_t = np.concatenate(symbols)
    text_t = np.repeat(np.arange(len(texts)), [len(s) for s in symbols])
    texts_found, codes_found = [], []
    for order in alphabet.orders:
        last = len(symbol_t) - order + 1
        if last < 1:
            continue
        is_whole = text_t[:last] == text_t[order - 1 :]
        code = np.zeros(last, dtype=np.int64)
        for shift in range(order):
            symbol = symbol_t[shift : shift + last]
            code = (code << alphabet.bits) | symbol
            is_whole &= symbol != UNKNOWN
        texts_found.append(text_t[:last][is_whole])
        codes_found.append(code[is_whole])
    if not codes_found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(texts_found), np.concatenate(codes_found)


def _table(row_t: Ints, column_t: Ints, shape: tuple[int, int]) -> sparse.csr_array:
    """How often each pair of row and column occurs; one entry a pair."""
    ones = np.ones(len(row_t), dtype=np.float32)
    return sparse.csr_array(sparse.coo_array((ones, (row_t, column_t)), shape=shape))


def _code_of(alphabet: Alphabet, gram: str) -> int:
    code = 0
    for symbol in alphabet.symbols(gram):
        code = (code << alphabet.bits) | int(symbol)
    return code


def _symbols_of(alphabet: Alphabet, code: int) -> list[int]:
    symbols: list[int] = []
    while code:
        symbols.insert(0, code & ((1 << alphabet.bits) - 1))
        code >>= alphabet.bits
    return symbols
