"""What did the plan promise, and what cost the difference?

The useful share of static minibatches, and how far the largest step lies above the mean, three
times over the same steps: as predicted; the planned minibatches on the lengths that were logged;
the steps as they were trained. From the first to the second is what the predictions cost, from the
second to the third what the order did.
"""

from dataclasses import dataclass

import polars as pl

from rollout.verify.order import Followed
from rollout.verify.planned import Planned
from stages.predictor.evaluation.measures import tau
from stages.tables.utilization import utilization


@dataclass(frozen=True)
class Measured:
    """Steps as predicted, as planned, or as trained."""

    utilization: float  # useful over paid slot-steps of static minibatches
    excess: float  # tokens of the largest step over the mean, less 1


@dataclass(frozen=True)
class Difference:
    """Predictions against what was logged, over the planned minibatches that it tells of."""

    predicted: Measured
    planned: Measured  # the planned minibatches on logged lengths
    trained: Measured
    tokens_ratio: float  # logged over predicted tokens
    tau: float | None  # of predicted with logged tokens a response, over minibatches
    steps: pl.DataFrame  # a row a logged batch: batch, predicted_tokens, planned_tokens (logged)


def compare(planned: Planned, logged: pl.DataFrame, followed: Followed) -> Difference | None:
    """Compare lengths; None where of no planned minibatch every prompt was trained on.

    Args:
        planned: What was handed over.
        logged: A row a response in the order of the log: step, prompt_hash, response_tokens.
        followed: How their steps agree.
    """
    responses = logged.join(followed.steps.select("step", "batch"), on="step").with_columns(
        number=pl.col("batch") // planned.num_batches
    )
    pieces = _pieces(planned, responses)
    if pieces.is_empty():
        return None
    steps = pieces.group_by("batch").agg(
        pl.col("predicted_tokens").sum(), planned_tokens=pl.col("tokens").sum()
    )
    trained = _units(planned, responses.join(steps, on="batch", how="semi"))
    tokens = trained.group_by("batch").agg(pl.col("tokens").sum())["tokens"]
    per_response = pieces.select(pl.col("predicted_tokens", "tokens") / pl.col("slots"))
    return Difference(
        predicted=Measured(
            _useful(pieces, "predicted_tokens", "predicted_longest"),
            _excess(steps["predicted_tokens"]),
        ),
        planned=Measured(_useful(pieces, "tokens", "longest"), _excess(steps["planned_tokens"])),
        trained=Measured(_useful(trained, "tokens", "longest"), _excess(tokens)),
        tokens_ratio=float(pieces["tokens"].sum()) / float(pieces["predicted_tokens"].sum()),
        tau=tau(*(per_response[name].to_numpy() for name in per_response.columns)),
        steps=steps.sort("batch"),
    )


def _pieces(planned: Planned, responses: pl.DataFrame) -> pl.DataFrame:
    """The planned minibatches of the logged batches, those a batch cuts in two as two.

    A row a piece whose every prompt has responses: batch, slots, tokens and longest as logged,
    predicted_tokens, predicted_longest. A prompt with responses too few or too many counts as if
    it had the planned number of its mean length.
    """
    lengths = responses.group_by("number", "prompt_hash").agg(
        mean=pl.col("response_tokens").mean(), longest=pl.col("response_tokens").max()
    )
    logged = responses.select("batch", "number").unique()
    of_minibatch = planned.minibatches.select(
        "epoch", "minibatch_id", "num_prompts", "predicted_tokens", "predicted_longest"
    )
    share = pl.col("num_rows") / pl.col("num_prompts")
    return (
        logged.with_columns(of_pass=pl.col("batch") % planned.num_batches)
        .join(planned.rows.drop_nulls("minibatch_id"), left_on="of_pass", right_on="batch")
        .join(lengths, on=["number", "prompt_hash"], how="left")
        .group_by("batch", "epoch", "minibatch_id")
        .agg(
            num_rows=pl.len(),
            is_known=pl.col("mean").is_not_null().all(),
            tokens=pl.col("mean").sum() * planned.samples_per_prompt,
            longest=pl.col("longest").max(),
        )
        .filter("is_known")
        .join(of_minibatch, on=["epoch", "minibatch_id"])
        .with_columns(
            slots=pl.col("num_rows") * planned.samples_per_prompt,
            predicted_tokens=pl.col("predicted_tokens") * share,
        )
        .sort("batch", "epoch", "minibatch_id")
    )


def _units(planned: Planned, responses: pl.DataFrame) -> pl.DataFrame:
    """What was decoded together if each step is cut as its batch was planned.

    Prompts that the batch was to hold are in their minibatch; the others, in the order of the log,
    take the places that are left, and what finds none joins the last.
    """
    prompts = responses.group_by("batch", "prompt_hash", maintain_order=True).agg(
        tokens=pl.col("response_tokens").sum(),
        longest=pl.col("response_tokens").max(),
        slots=pl.len(),
    )
    places = (
        prompts.select("batch")
        .unique(maintain_order=True)
        .with_columns(of_pass=pl.col("batch") % planned.num_batches)
        .join(planned.rows, left_on="of_pass", right_on="batch", maintain_order="left_right")
        .unique(["batch", "prompt_hash"], keep="first", maintain_order=True)
        .select("batch", "prompt_hash", unit=pl.col("minibatch_id").rle_id().over("batch"))
    )
    at_home = prompts.join(places, on=["batch", "prompt_hash"])
    strays = prompts.join(places, on=["batch", "prompt_hash"], how="anti")
    place = pl.int_range(pl.len()).over("batch").alias("place")
    free = places.join(prompts, on=["batch", "prompt_hash"], how="anti").with_columns(place)
    last = places.group_by("batch").agg(last=pl.col("unit").max())
    seated = (
        strays.with_columns(place)
        .join(free.drop("prompt_hash"), on=["batch", "place"], how="left")
        .join(last, on="batch")
        .with_columns(pl.coalesce("unit", "last"))
    )
    columns = ["batch", "unit", "tokens", "longest", "slots"]
    together = pl.concat([at_home.select(columns), seated.select(columns)])
    return (
        together.group_by("batch", "unit")
        .agg(pl.col("tokens", "slots").sum(), pl.col("longest").max())
        .sort("batch", "unit")
    )


def _useful(units: pl.DataFrame, tokens: str, longest: str) -> float:
    paid = float((units["slots"] * units[longest]).sum())
    return float(utilization(float(units[tokens].sum()), paid))


def _excess(tokens_b: pl.Series) -> float:
    """Largest over the mean, less 1."""
    tokens = tokens_b.to_numpy()
    return float(tokens.max() / tokens.mean()) - 1
