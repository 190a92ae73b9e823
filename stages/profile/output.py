"""What a profile says of itself, and how it is written, whatever it is made of."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from stages.tables.errors import log
from stages.tables.io import write_table
from stages.tables.prompt_survey import PromptFile
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Profile


def results_of(profile: pl.DataFrame, prompts: PromptFile) -> dict[str, Any]:
    """Counts of responses and prompts, the share at the cap."""
    is_at_cap = profile.get_column("finish_reason").cast(pl.String) == "length"
    return {
        "num_responses": len(profile),
        "num_prompts": profile.get_column("prompt_hash").n_unique(),
        "num_prompts_given": prompts.frame.get_column("prompt_hash").n_unique(),
        "share_at_cap": int(is_at_cap.sum()) / len(profile),
    }


def tell(results: Mapping[str, Any]) -> None:
    """Say them."""
    log.info(
        "%d responses to %d of %d prompts, %.1f%% of them at the cap",
        results["num_responses"], results["num_prompts"], results["num_prompts_given"],
        100 * results["share_at_cap"],
    )  # fmt: skip


def write(
    profile: pl.DataFrame,
    output: str,
    settings: dict[str, Any],
    results: dict[str, Any],
    inputs: tuple[Input, ...],
    force: bool,
) -> None:
    """Write a profile with its settings, among them the seed."""
    seed = settings.pop("seed")
    provenance = Provenance("profile", "profile/1", settings, seed, results, inputs)
    write_table(profile, Profile, output, provenance, force)
