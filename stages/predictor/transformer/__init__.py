"""Response lengths read from a language model: its frozen states, or the model tuned for them.

Imports torch and transformers, so it is imported only for `--backend transformer`.
"""
