"""Which true lengths does a profile know of the prompts that are to be run?"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rollout.replay import recorded_lengths
from stages.tables.derived import complete_profile
from stages.tables.errors import AspError, log
from stages.tables.io import read_table
from stages.tables.provenance import Input
from stages.tables.schemas import Profile

Recorded = dict[int, NDArray[np.int64]]  # lengths [tokens] by prompt_id


def read_observed(
    profile: str | None, lengths: pl.DataFrame, name: str, prompts: str
) -> tuple[Recorded, tuple[Input, ...]]:
    """Recorded lengths of some prompts, and what a footer says of the profile.

    Args:
        profile: The file; None: nothing is recorded.
        lengths: Of the prompts, a complete lengths table.
        name: Of that table, for messages; lengths that are not recorded are drawn from it.
        prompts: Which they are, in words.

    Raises:
        AspError: The profile is bad, or of other prompts.
    """
    if profile is None:
        return {}, ()
    observed = read_table(profile, Profile, complete_profile)
    recorded = recorded_lengths(lengths, observed.frame)
    if not recorded:
        raise AspError(
            f"{observed.name}: holds no response to any of {prompts}; profile these prompts, or "
            f"leave --profile out to draw lengths from {name}"
        )
    if len(recorded) < len(lengths):
        log.warning(
            "%d of %d prompts have no recorded response; their lengths are drawn from %s",
            len(lengths) - len(recorded), len(lengths), name,
        )  # fmt: skip
    return recorded, (Input("profile", observed.sha256, observed.provenance),)
