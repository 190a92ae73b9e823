"""Which observed responses say how long the prompts of a lengths table now are?

In: lengths, and profiles of the policy in training. Responses find their prompt by prompt_hash,
never by row. Left out, with a count each: responses to other prompts; responses cut off from
outside (`abort`), which say little of how long they would have been; and sample groups that are
not whole. A running step has only its short responses so far, and taking them for the whole group
would make every prompt look short. A group is a prompt's responses by one policy version; it is
whole when it holds the n responses that training samples.

Arrays end in an axis legend: _p prompts (rows of the lengths table), _s responses that count.
"""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from stages.predictor.backend import Bools, Floats, Ints
from stages.tables.errors import AspError, first_few


@dataclass(frozen=True)
class Observed:
    """Responses that count, in ascending policy version, within one by prompt."""

    prompt_s: Ints  # row of the lengths table
    version_s: Ints  # policy version that answered
    log_tokens_s: Floats  # of 1 token where the response has none
    is_censored_s: Bools  # the response met its cap: it would have been at least this long

    def subset(self, is_kept_s: Bools | slice) -> "Observed":
        """Some of the responses."""
        return Observed(
            self.prompt_s[is_kept_s],
            self.version_s[is_kept_s],
            self.log_tokens_s[is_kept_s],
            self.is_censored_s[is_kept_s],
        )

    def newest_groups(self) -> "Observed":
        """Of each prompt the group of the newest policy version that answered it."""
        newest_p = np.full(int(self.prompt_s.max()) + 1, -1)
        np.maximum.at(newest_p, self.prompt_s, self.version_s)
        return self.subset(self.version_s == newest_p[self.prompt_s])

    def shifted(self, by_s: Floats) -> "Observed":
        """The same with something taken from each log length, as for residuals."""
        return replace(self, log_tokens_s=self.log_tokens_s - by_s)


@dataclass(frozen=True)
class Tally:
    """What became of the rows of the profiles, in responses but where it says groups."""

    num_rows: int
    num_used: int
    num_unmatched: int  # to prompts that the lengths table does not have
    num_aborted: int
    num_in_parts: int  # in groups that are not whole
    num_groups: int
    num_partial_groups: int  # not whole

    def line(self) -> str:
        """What was used and what was not."""
        left_out = {
            "to prompts that the lengths table does not have": self.num_unmatched,
            "cut off from outside (abort)": self.num_aborted,
            "in sample groups that are not whole": self.num_in_parts,
        }
        told = "; ".join(f"{count} {why}" for why, count in left_out.items() if count)
        used = f"{self.num_used} of {self.num_rows} observed responses used"
        return f"{used}; left out: {told}" if told else used


def join(
    lengths: pl.DataFrame, profile: pl.DataFrame, name: str, group_samples: int | None
) -> tuple[Observed, Tally]:
    """Find the prompt of each response and keep those that count.

    Args:
        lengths: Schema Lengths, prompt_hash without nulls.
        profile: Schema Profile, of one model; rows of several profiles below each other.
        name: Of the lengths table, for messages.
        group_samples: Responses of a whole group; None: the table's samples_per_prompt.

    Raises:
        AspError: No response is to a prompt of the table, or no group is whole.
    """
    wanted = pl.lit(group_samples) if group_samples else pl.col("samples_per_prompt")
    prompts = lengths.select(
        "prompt_hash", wanted.alias("group_samples"), pl.int_range(pl.len()).alias("row")
    )
    matched = profile.join(prompts.select("prompt_hash").unique(), on="prompt_hash", how="semi")
    if matched.is_empty():
        raise AspError(
            f"{name}: none of its prompts is among those observed; first prompt_hash "
            f"{lengths.item(0, 'prompt_hash')} here, {profile.item(0, 'prompt_hash')} there; "
            "give the profile of the same prompts"
        )
    ended = matched.filter(pl.col("finish_reason") != "abort")
    # Equal texts may stand in several rows; they share their observations.
    rows = ended.join(prompts, on="prompt_hash").with_columns(
        size=pl.len().over("row", "policy_version")
    )
    whole = rows.filter(pl.col("size") >= pl.col("group_samples"))
    if whole.is_empty():
        raise AspError(
            f"{name}: no prompt has a whole sample group among those observed: the largest has "
            f"{rows['size'].max() or 0} responses that ended, and "
            f"{first_few(rows['group_samples'].unique().sort()) or 'more'} make it whole; where "
            "the profile is not of a step that still runs, give --group-samples N"
        )
    whole = whole.sort("policy_version", "row", "model", "sample_index")
    observed = Observed(
        whole["row"].to_numpy().astype(np.int64),
        whole["policy_version"].to_numpy(),
        whole["response_tokens"].clip(1).log().to_numpy(),
        (whole["finish_reason"] == "length").to_numpy(),
    )
    group = ["prompt_hash", "policy_version"]
    num_used = len(ended.join(whole.select(group).unique(), on=group, how="semi"))
    groups = ended.select(group).unique()
    return observed, Tally(
        num_rows=len(profile),
        num_used=num_used,
        num_unmatched=len(profile) - len(matched),
        num_aborted=len(matched) - len(ended),
        num_in_parts=len(ended) - num_used,
        num_groups=len(groups),
        num_partial_groups=len(groups) - len(whole.select(group).unique()),
    )
