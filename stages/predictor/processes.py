"""Is this the only process of the run, or one of several that a launcher started?

Known by the environment that `accelerate launch` and torchrun set. Imports nothing, since every run
asks.
"""

import os


def num_processes() -> int:
    """How many take part in the run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this one writes the output."""
    return num_processes() == 1 or os.environ.get("RANK") == "0"
