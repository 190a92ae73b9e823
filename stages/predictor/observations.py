"""What does a profile say of one model: responses, caps, and the way they were sampled?

In: profile. A profile may hold several models or policy versions; lengths differ between them, so
one of each is chosen, by name where there are more.

Arrays end in an axis legend: _p prompts, _s samples of all prompts in a row.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from stages.predictor.backend import Bools, Ints, Observations
from stages.tables.errors import AspError, first_few


@dataclass(frozen=True)
class Domain:
    """How the profile was made: predictions hold for training that samples alike."""

    model: str
    policy_version: int
    num_prompts: int
    num_responses: int
    num_censored: int  # responses that were cut, at the cap or from outside
    most_samples: int  # responses of one prompt
    cap: int  # tokens; the largest in force, or the longest response where none is recorded
    is_cap_recorded: bool
    temperatures: tuple[float, ...]  # in ascending order; empty where not recorded


@dataclass(frozen=True)
class Evidence:
    """One model's part of a profile: a row a prompt, its responses, and where it comes from."""

    prompts: pl.DataFrame  # prompt_id, prompt_hash, prompt, prompt_tokens?, cap; a row a prompt
    observations: Observations  # prompts in the order of that frame
    tokens_s: Ints  # as recorded
    is_aborted_s: Bools  # cut off from outside: how long it was says little of how long it is
    domain: Domain


def observe(
    profile: pl.DataFrame, name: str, model: str | None = None, policy_version: int | None = None
) -> Evidence:
    """Take one model's responses out of a valid profile.

    A response that ended at the cap, or was cut off from outside, was at least as long as it is:
    both are censored there.

    Args:
        profile: Schema Profile.
        name: Of the profile, for messages.
        model: Model to take; None where there is only one.
        policy_version: Policy version to take; None where there is only one.

    Raises:
        AspError: The profile holds several models or versions and none is named, or not that one.
    """
    profile = _choose(profile, "model", model, "--profile-model", name)
    profile = _choose(profile, "policy_version", policy_version, "--policy-version", name)
    profile = profile.sort("prompt_id", "prompt_hash", "sample_index")
    caps = profile.get_column("max_response_tokens")
    is_cap_recorded = caps.null_count() < len(caps)
    recorded = caps.max() if is_cap_recorded else profile.get_column("response_tokens").max()
    cap = max(int(recorded), 1)  # type: ignore[arg-type]
    prompts = profile.group_by("prompt_hash", maintain_order=True).agg(
        pl.first("prompt_id", "prompt", "prompt_tokens"),
        pl.col("domain").drop_nulls().first(),
        pl.max("max_response_tokens").fill_null(cap).alias("cap"),
        pl.len().alias("num_samples"),
    )
    number = pl.DataFrame({"prompt_hash": prompts["prompt_hash"], "prompt": range(len(prompts))})
    samples = profile.drop("prompt", "domain").join(number, on="prompt_hash", maintain_order="left")
    samples = samples.sort("prompt", "sample_index")
    observations = Observations(
        prompts.get_column("prompt").to_list(),
        samples.get_column("prompt").to_numpy().astype(np.int64),
        samples.get_column("response_tokens").clip(1).log().to_numpy(),
        samples.get_column("finish_reason").is_in(["length", "abort"]).to_numpy(),
        None if prompts["domain"].null_count() == len(prompts) else tuple(prompts["domain"]),
    )
    domain = Domain(
        model=str(profile.item(0, "model")),
        policy_version=int(profile.item(0, "policy_version")),
        num_prompts=len(prompts),
        num_responses=len(profile),
        num_censored=int(observations.is_censored_s.sum()),
        most_samples=int(prompts["num_samples"].max()),  # type: ignore[arg-type]
        cap=cap,
        is_cap_recorded=is_cap_recorded,
        temperatures=tuple(profile["temperature"].drop_nulls().unique().sort().to_list()),
    )
    return Evidence(
        prompts.drop("num_samples", "domain"),
        observations,
        samples.get_column("response_tokens").to_numpy(),
        (samples.get_column("finish_reason") == "abort").to_numpy(),
        domain,
    )


def _choose(
    profile: pl.DataFrame, column: str, wanted: str | int | None, flag: str, name: str
) -> pl.DataFrame:
    held = profile.get_column(column).unique().sort()
    what = f"{name}: column {column!r} holds {len(held)} values ({first_few(held, 6)})"
    if wanted is None and len(held) > 1:
        raise AspError(f"{what}, whose lengths differ; name one with {flag}")
    if wanted is not None and wanted not in held:
        raise AspError(f"{what}, none of them {wanted!r} ({flag})")
    return profile if wanted is None else profile.filter(pl.col(column) == wanted)
