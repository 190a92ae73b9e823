"""Did the trainer follow the schedule that it was given?

In: what `asp emit` wrote, and the trainer's own log of rollouts. Out: a verdict in words, and a
table with a row a logged step where it is asked for.

    asp verify for_trl/ --rollouts logs/completions --from trl --tokenizer MODEL
"""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rollout.verify import words
from rollout.verify.difference import Difference, compare
from rollout.verify.order import Followed, follow
from rollout.verify.planned import Planned, read_planned
from stages.profile.keys import keyed
from stages.profile.logs import Format
from stages.profile.recorded import Recording, Selection, read_recording
from stages.profile.rollouts import count_tokens
from stages.tables.errors import AspError, log
from stages.tables.io import check_output, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Verified


@dataclass(frozen=True)
class VerifyConfig:
    """How to read the log."""

    format: Format = "auto"
    prompts: str | None = None  # beside a schedule file
    prompt_column: str | None = None
    id_column: str | None = None  # of log and prompts; None: join by text
    tokenizer: str | None = None  # counts responses that are logged as text


def run(
    source: str, rollouts: str, output: str | None, config: VerifyConfig, force: bool = False
) -> tuple[str, bool]:
    """Read plan and log, compare, write the table where one is asked for.

    Returns:
        What to tell the user, and whether the schedule was followed.
    """
    if output is not None:
        check_output(output, force)
    planned = read_planned(source, config.prompts, config.prompt_column)
    recording = read_recording(rollouts, Selection(config.format, id_column=config.id_column))
    logged = _logged(recording, planned, config)
    followed = follow(planned.rows, logged, planned.samples_per_prompt, planned.has_budgets)
    lengths = logged.drop_nulls("response_tokens")
    difference = compare(planned, lengths, followed) if len(lengths) == len(logged) else None
    if output is not None:
        _write(output, planned, recording, followed, difference, config, force)
    text = words.tell(planned, len(logged), followed, difference)
    return text, followed.is_followed


def _logged(recording: Recording, planned: Planned, config: VerifyConfig) -> pl.DataFrame:
    """A row a response in the order of the log: step, prompt_hash, response_tokens?.

    A log that numbers no steps, but policy versions, has a step for each of them.
    """
    step = pl.coalesce("step", pl.col("policy_version") + 1)
    if recording.frame.select(step.has_nulls()).item():
        raise AspError(
            f"{recording.name}: does not say of each response at which training step it was "
            "logged, so no order can be read from it; give the trainer's own log of rollouts, "
            "with --from"
        )
    tokenizer = None
    if config.tokenizer is not None:
        from stages.tokens.tokenizer import PromptTokenizer

        tokenizer = PromptTokenizer(config.tokenizer)
    recording, keys, column = keyed(recording, planned.prompts, config.id_column, tokenizer)
    joined = recording.frame.join(
        keys, left_on=column, right_on="key", how="inner", maintain_order="left"
    )
    num_unknown = len(recording.frame) - len(joined)
    if joined.is_empty():
        raise AspError(
            f"{recording.name}: none of its {len(recording.frame)} responses is to a prompt of "
            f"{planned.prompts.name}; is it the log of this training? Where a trainer logs "
            "prompts in the chat template, give its --tokenizer"
        )
    if num_unknown:
        log.warning(
            "%s: %d of %d responses are to prompts that were not scheduled; left out",
            recording.name, num_unknown, len(recording.frame),
        )  # fmt: skip
    if tokenizer is not None:
        joined = count_tokens(joined.with_columns(tokens_from=pl.lit("count")), tokenizer)
    return joined.select(step.alias("step"), "prompt_hash", "response_tokens")


def _write(
    output: str,
    planned: Planned,
    recording: Recording,
    followed: Followed,
    difference: Difference | None,
    config: VerifyConfig,
    force: bool,
) -> None:
    steps = followed.steps
    if difference is None:
        nothing = pl.lit(None, pl.Float64)
        steps = steps.with_columns(predicted_tokens=nothing, planned_tokens=nothing)
    else:
        steps = steps.join(difference.steps, on="batch", how="left", maintain_order="left")
    provenance = Provenance(
        stage="verify",
        schema="verified/1",
        config={
            "format": recording.layout.name,
            "id_column": config.id_column,
            "tokenizer": Path(config.tokenizer).name if config.tokenizer else None,
        },
        results={"verdict": followed.verdict.value},
        inputs=(
            Input("schedule", planned.sha256, None),
            Input("rollouts", recording.sha256, recording.provenance),
        ),
    )
    write_table(steps.select(Verified.column_names()), Verified, output, provenance, force)
