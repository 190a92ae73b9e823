"""The logs of rollouts that trainers write: a module a trainer, a table of all (`known.py`)."""

from typing import Literal

Format = Literal[
    "auto", "plain", "verl", "slime", "areal", "nemo-rl", "trl", "roll", "skyrl", "asp"
]
"""What --from takes."""
