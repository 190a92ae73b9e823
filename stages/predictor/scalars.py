"""Which countable traits of a text say how long its answer will be?

Counts and sizes, each as log(1 + x); the sizes of the numbers in it matter since an answer works
with them. Polars counts a column at a time, in Rust.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

_TEXT = pl.col("text")
_PATTERNS = {
    "num_words": r"\w+",
    "num_lines": r"(?m)^",
    "num_blank_lines": r"\n\s*\n",
    "num_sentences": r"[.!?](?:\s|$)",
    "num_questions": r"\?",
    "num_commas": r",",
    "num_quotes": "[\"'`]",
    "num_digits": r"[0-9]",
    "num_numbers": r"[0-9]+(?:\.[0-9]+)?",
    "num_long_numbers": r"[0-9]{3,}",
    "num_decimals": r"[0-9]\.[0-9]",
    "num_negatives": r"-[0-9]",
    "num_capitals": r"\p{Lu}",
    "num_not_ascii": r"[^\x00-\x7f]",
    "num_single_letters": r"\b[a-zA-Z]\b",
    "num_latex_commands": r"\\[a-zA-Z]+",
    "num_dollars": r"\$",
    "num_code_signs": r"```|\bdef |\breturn\b|;\n|#include|\bclass ",
    "num_operators": r"[+*/=<>^%|&~-]",
    "num_brackets": r"[\[\](){}]",
    "num_lists": r"\[",
    "num_parentheses": r"\(",
    "num_products": r"\*",
    "num_powers": r"\^|\*\*",
    "num_quotients": r"/",
    "num_equations": r"=",
    "num_grid_lines": r"(?m)^[\sA-Z0-9.#_|+-]+$",
    "num_options": r"(?m)^\s*\(?[A-J][.):]",
    "num_list_items": r"(?m)^\s*(?:[-*]|[0-9]+[.)])\s",
    "num_asks_for_steps": r"(?i)\b(?:step|explain|reason|think|prove|show)",
    "num_asks_for_brevity": r"(?i)\b(?:only|single|just|brief|short|concise|format)\b",
}
_LINES = _TEXT.str.split("\n")
_LINE_SIZES = _LINES.list.eval(pl.element().str.len_chars())
_WORDS = _TEXT.str.extract_all(r"\S+")
_WORD_SIZES = _WORDS.list.eval(pl.element().str.len_chars())
_SIZES = {
    "num_characters": _TEXT.str.len_chars(),
    "num_bytes": _TEXT.str.len_bytes(),
    "longest_line": _LINE_SIZES.list.max(),
    "mean_line": _LINE_SIZES.list.mean(),
    "spread_of_lines": _LINE_SIZES.list.std(),
    "last_line": _LINE_SIZES.list.last(),
    "longest_list": _LINES.list.eval(pl.element().str.count_matches(",")).list.max(),
    "longest_word": _WORD_SIZES.list.max(),
    "mean_word": _WORD_SIZES.list.mean(),
    "num_different_words": _WORDS.list.n_unique(),
    "num_different_numbers": _TEXT.str.extract_all(r"[0-9]+").list.n_unique(),
    "longest_number": _TEXT.str.extract_all(r"[0-9]+")
    .list.eval(pl.element().str.len_chars())
    .list.max(),
}
# Of a question with options to choose from: the rest of it, and the options.
_OPTION = r"(?m)^[ \t]*\(?[A-J][.):][^\n]*"
_OPTIONS = _TEXT.str.extract_all(_OPTION)
_OPTION_SIZES = _OPTIONS.list.eval(pl.element().str.len_chars())
_OPTION_DIGITS = _OPTIONS.list.eval(pl.element().str.count_matches("[0-9]"))
_CHOICES = {
    "size_without_options": _TEXT.str.replace_all(_OPTION, "").str.len_chars(),
    "mean_option": _OPTION_SIZES.list.mean(),
    "spread_of_options": _OPTION_SIZES.list.std(),
    "longest_option": _OPTION_SIZES.list.max(),
    "shortest_option": _OPTION_SIZES.list.min(),
    "mean_digits_of_options": _OPTION_DIGITS.list.mean(),
    "num_options_with_digits": (_OPTION_DIGITS.list.eval(pl.element() > 0)).list.sum(),
}
# Whole numbers in the text, as log(1 + number); 15 digits keep them exact as floats.
_LOG_NUMBERS = _TEXT.str.extract_all(r"[0-9]{1,15}").list.eval(
    pl.element().cast(pl.Float64).log1p()
)
_NUMBERS = {
    "largest_number": _LOG_NUMBERS.list.max(),
    "mean_number": _LOG_NUMBERS.list.mean(),
    "median_number": _LOG_NUMBERS.list.median(),
    "smallest_number": _LOG_NUMBERS.list.min(),
    "spread_of_numbers": _LOG_NUMBERS.list.std(),
    "sum_of_numbers": _LOG_NUMBERS.list.sum(),
    "first_number": _LOG_NUMBERS.list.first(),
    "last_number": _LOG_NUMBERS.list.last(),
}
NAMES = (*_PATTERNS, *_SIZES, *_CHOICES, *_NUMBERS)


def measure(texts: Sequence[str]) -> NDArray[np.float32]:
    """The scalars of each text, prompts x NAMES; 0 where a text has none (no number, no word)."""
    counts = {name: _TEXT.str.count_matches(pattern) for name, pattern in _PATTERNS.items()}
    logs = {name: e.cast(pl.Float64).log1p() for name, e in (counts | _SIZES | _CHOICES).items()}
    frame = pl.DataFrame({"text": list(texts)}, schema={"text": pl.String})
    measured = frame.select(**(logs | _NUMBERS)).fill_null(0.0).fill_nan(0.0)
    return measured.select(NAMES).to_numpy().astype(np.float32)
