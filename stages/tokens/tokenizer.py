"""A model's tokenizer: what a prompt looks like to the model, and how long a text is.

Imports transformers, so it is imported only where a tokenizer was asked for.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub.utils import logging as hub_logging
from jinja2 import TemplateError
from transformers import AutoTokenizer
from transformers.utils import logging as transformers_logging

from stages.tables.errors import AspError, log
from stages.tables.prompts import canonical_text

_CHUNK = 1024  # texts tokenised at once
Loaded = TypeVar("Loaded")


def load_pretrained(load: Callable[[], Loaded], name: str, flag: str, what: str) -> Loaded:
    """Run a `from_pretrained`; a name or directory that holds no such thing is a user's mistake.

    Raises:
        AspError: Nothing is there, or it cannot be loaded.
    """
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    hub_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    is_here = Path(name).is_dir()
    if not is_here:
        if name.startswith((".", "/", "~")) or name.count("/") > 1:
            raise AspError(f"{flag} {name}: no such directory; give one that holds {what}")
        log.info("%s is no directory here: looking for it in the cache and on the model hub", name)
    try:
        return load()
    except Exception as error:  # a damaged file raises whatever its parser raises
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0] if lines else type(error).__name__
        where = "" if is_here else "it is no directory here, and "
        raise AspError(
            f"{flag} {name}: cannot be loaded as {what}: {where}{reason[:200]}"
        ) from None


def public_name(name: str) -> str:
    """The name of a model or tokenizer without where it lies: a path's last part, a hub's name."""
    return Path(name).resolve().name if os.path.isdir(name) else name


class PromptTokenizer:
    """A tokenizer with its chat template."""

    def __init__(self, name: str, flag: str = "--tokenizer", uses_template: bool = True) -> None:
        self.name = public_name(name)
        self.tokenizer: Any = load_pretrained(
            lambda: AutoTokenizer.from_pretrained(name), name, flag, "a tokenizer"
        )
        self.has_template = uses_template and bool(getattr(self.tokenizer, "chat_template", None))

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, no special ones added."""
        counts: list[int] = []
        for start in range(0, len(texts), _CHUNK):
            chunk = list(texts[start : start + _CHUNK])
            encoded = self.tokenizer(chunk, add_special_tokens=False)["input_ids"]
            counts.extend(len(ids) for ids in encoded)
        return counts

    def encode_prompt(self, prompt: Any) -> list[int]:
        """Token ids that a model is given for a prompt, text or messages.

        With a chat template: the rendered conversation (text being one user message) up to where
        the answer starts. Without: the canonical text, with the tokenizer's own special tokens.

        Raises:
            AspError: The template does not take such a conversation.
        """
        if not self.has_template:
            return list(self.tokenizer(canonical_text(prompt))["input_ids"])
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        try:
            rendered = self.tokenizer.apply_chat_template(
                [{k: v for k, v in message.items() if v is not None} for message in messages],
                add_generation_prompt=True,
                tokenize=False,
            )
        except TemplateError as error:
            raise AspError(
                f"the chat template of {self.name} refuses a prompt: {error}; it begins with "
                f"{str(canonical_text(prompt))[:60]!r}"
            ) from None
        # The template writes the special tokens itself.
        return list(self.tokenizer(rendered, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int], has_specials: bool = False) -> str:
        """The text of token ids, special tokens left out unless `has_specials`."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=not has_specials))

    def digest(self) -> str:
        """sha256 of vocabulary, merges and template: equal where two tokenizers do the same."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        content = backend.to_str() if backend else json.dumps(self.tokenizer.get_vocab())
        template = self.tokenizer.chat_template if self.has_template else None
        return hashlib.sha256(f"{content}\0{template}".encode()).hexdigest()
