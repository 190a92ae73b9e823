"""How long are responses now, and how is an epoch dealt then?

In: a lengths table, the lengths of a run's own responses since. Out: a folder with
`observed.parquet` (a profile), `lengths.parquet` (refreshed) and, where there is an epoch to deal,
`groups.parquet`, cut and dealt as the schedule was: `asp refresh | asp partition | asp balance`.
The epoch keeps its training steps and its tails; which prompts are generated together is new.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path

import polars as pl

from rollout.control.plan import Head, Plan
from rollout.origin import check_same_prompts, recorded_settings
from rollout.trainer.observed import Made, profile_of
from stages.balance.config import BalanceConfig
from stages.balance.epochs import one_epoch
from stages.balance.split import Cutter
from stages.lengths import table as lengths_table
from stages.partition.config import PartitionConfig
from stages.partition.stage import partition
from stages.predictor.refresh import stage as refresh
from stages.predictor.refresh.update import RefreshConfig
from stages.tables.errors import AspError
from stages.tables.io import Table, read_table, write_table
from stages.tables.prompts import prompt_hash
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import IS_HEAD, Groups, Lengths, Profile

OBSERVED, LENGTHS, GROUPS = "observed.parquet", "lengths.parquet", "groups.parquet"


@dataclass(frozen=True)
class Recipe:
    """How lengths are refreshed and an epoch is dealt."""

    lengths: str  # file, from which the schedule was made
    texts: Mapping[int, str]  # canonical text of each prompt of the schedule
    model: str  # name of what answers
    samples_per_prompt: int
    cut: PartitionConfig
    deal: BalanceConfig
    seed: int


def redeal(
    recipe: Recipe, prior: Path, made: Sequence[Made], epoch: int | None, folder: Path
) -> pl.DataFrame | None:
    """Refresh, and deal an epoch anew; runs in a process of its own.

    Args:
        recipe: How.
        prior: Lengths table before these responses.
        made: What was trained on since.
        epoch: To deal; None: there is none.
        folder: To write into; what is there goes.

    Returns:
        The groups table of the epoch, or None.

    Raises:
        AspError: As `asp refresh` and its fellows.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    before = read_table(str(prior), Lengths, lengths_table.complete)
    observed = folder / OBSERVED
    provenance = Provenance("train", "profile/1", {}, recipe.seed)
    known = before.frame.select("prompt_id", "prompt_hash", max_response_tokens="cap").join(
        pl.DataFrame({"prompt_id": list(recipe.texts), "prompt": list(recipe.texts.values())}),
        on="prompt_id",
    )
    profile = profile_of(made, known, recipe.model)
    write_table(profile, Profile, str(observed), provenance, True)
    config = RefreshConfig(group_samples=recipe.samples_per_prompt, seed=recipe.seed)
    refresh.run(str(prior), [str(observed)], str(folder / LENGTHS), config)
    if epoch is None:
        return None
    complete = partial(lengths_table.complete, samples_per_prompt=recipe.samples_per_prompt)
    lengths = read_table(str(folder / LENGTHS), Lengths, complete)
    groups = _deal(recipe, lengths, epoch)
    provenance = Provenance(
        "train", "groups/1", {"partition": asdict(recipe.cut), "balance": asdict(recipe.deal)},
        recipe.seed, inputs=(Input("lengths", lengths.sha256, lengths.provenance),),
    )  # fmt: skip
    write_table(groups, Groups, str(folder / GROUPS), provenance, True)
    return groups


def recipe_of(
    groups: Table, lengths: Table, path: str, texts: Mapping[int, str], model: str, seed: int
) -> Recipe:
    """How the schedule was made.

    Args:
        groups: The schedule.
        lengths: The lengths table that it was made from.
        path: Where the latter lies.
        texts: Canonical text of each prompt of the schedule; empty where it is not known.
        model: Name of what answers.
        seed: Of the run.

    Raises:
        AspError: The lengths are of other prompts, or the schedule does not tell.
    """
    check_same_prompts(groups, lengths)
    hashes = dict(lengths.frame.select("prompt_id", "prompt_hash").iter_rows())
    for prompt, text in texts.items():
        if hashes[prompt] is None or (text and hashes[prompt] != prompt_hash(text)):
            raise AspError(
                f"{lengths.name}: prompt_id {prompt} has prompt_hash {hashes[prompt]}, which is "
                "not that of the prompt scheduled; give the lengths that `asp predict` made of "
                "these prompts"
            )
    found = groups.provenance
    dealt = found.ancestor("balance") if found else None
    if found is None or found.ancestor("partition") is None or dealt is None:
        raise AspError(
            f"{groups.name}: does not tell how it was made, so no epoch can be dealt as it was; "
            "give one that `asp emit` wrote, or leave --refresh-each-epoch out"
        )
    heads = groups.frame.filter(IS_HEAD)
    samples = (heads["num_samples"] / heads["num_prompts"]).unique().to_list()
    if len(samples) > 1:
        raise AspError(
            f"{groups.name}: num_samples / num_prompts goes from {min(samples):g} to "
            f"{max(samples):g}, and an epoch is dealt with one number for all; leave "
            "--refresh-each-epoch out"
        )
    cut, deal = recorded_settings(groups)
    deal = replace(
        deal,
        instance_speeds=tuple(dealt.config.get("instance_speeds") or ()),
        stratify=dealt.config.get("stratify"),
    )
    return Recipe(path, texts, model, int(samples[0]), cut, deal, seed)


def heads_of(plan: Plan, epoch: int, groups: pl.DataFrame) -> list[Head]:
    """The groups table of an epoch as heads, in the steps and with the numbers that the plan has.

    Raises:
        AspError: It does not fill as many steps as the epoch has.
    """
    planned = [head for head in plan.heads if head.epoch == epoch]
    steps = sorted({head.step for head in planned})
    number = {plan.prompt_g[group]: group for head in planned for group in head.groups}
    ids = groups["group_id"].unique().sort().to_list()
    if len(ids) != len(steps):
        raise AspError(f"its minibatches make {len(ids)} batch groups, and it has {len(steps)}")
    step_of = dict(zip(ids, steps, strict=True))
    known = [head.minibatch_id for head in planned]
    places = [place.minibatch_id for found in plan.places.values() for place in found]
    minibatch_ids = chain(known, count(max(known + places) + 1))
    heads = []
    for row in groups.sort("position").iter_rows(named=True):
        numbers = [number[prompt] for prompt in row["prompt_ids"]]
        num_samples = sum(plan.samples_g[group] for group in numbers)
        heads.append(
            Head(epoch, next(minibatch_ids), step_of[row["group_id"]], numbers, num_samples,
                 row["instance"])
        )  # fmt: skip
    return heads


def _deal(recipe: Recipe, lengths: Table, epoch: int) -> pl.DataFrame:
    scheduled = lengths.frame.filter(pl.col("prompt_id").is_in(list(recipe.texts)))
    minibatches, _ = partition(scheduled, recipe.cut, lengths.name)
    deal = recipe.deal.for_table(minibatches)
    cutter = Cutter.of(minibatches, recipe.cut.cost_model)
    return one_epoch(minibatches, deal, cutter, epoch)[0]
