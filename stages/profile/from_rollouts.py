"""A profile of recorded rollouts: whoever made the responses wrote them down.

In: prompts, and a file or a log of responses. Out: the profile table.

    asp profile prompts.parquet --rollouts rollouts.jsonl -o profile.parquet
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from stages.profile.keys import Tokenizer, keyed
from stages.profile.logs import Format
from stages.profile.logs.plain import PLAIN
from stages.profile.output import results_of, tell, write
from stages.profile.recorded import UNNAMED_MODEL, Recording, Selection, read_recording
from stages.profile.rollouts import (
    Joined,
    count_prompt_tokens,
    count_tokens,
    join,
    thin,
    with_finish_reason,
)
from stages.profile.sampling import different, sample_prompts
from stages.tables.errors import AspError, log, shorten
from stages.tables.io import STDIO, check_output
from stages.tables.prompt_survey import PromptFile, read_prompts
from stages.tables.prompts import DEFAULT_PROMPT_COLUMN
from stages.tables.provenance import Input
from stages.tables.schemas import Profile


@dataclass(frozen=True)
class RolloutsConfig:
    """How to read recorded responses."""

    format: Format = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)  # field of logs/layout.py: column
    id_column: str | None = None  # of both files; None: join by text
    model: str | None = None  # whose responses; None: the only model there is
    tokenizer: str | None = None  # directory or name; counts text
    max_response_tokens: int | None = None  # the cap where the file names none
    temperature: float | None = None  # where the file names none
    num_prompts: int | None = None  # at most; None: all that have responses
    rollouts_per_prompt: int | None = None  # at most; None: all
    prompt_column: str = DEFAULT_PROMPT_COLUMN
    domain_column: str | None = None  # of the prompts; None: `domain` where there is one
    seed: int = 0  # of the choice of prompts


def profile_rollouts(
    recording: Recording,
    prompts: PromptFile,
    joined: Joined,
    config: RolloutsConfig,
    tokenizer: Tokenizer | None,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Make the profile table of joined responses.

    Returns:
        The table, and what is to be said of it: counts of rows and prompts, the share at the cap.
    """
    answered = different(prompts.frame).join(joined.frame, on="prompt_hash", how="semi")
    sample = sample_prompts(answered, config.num_prompts, config.seed)
    responses = thin(joined.frame, sample, config.rollouts_per_prompt).with_columns(
        pl.coalesce("max_response_tokens", pl.lit(config.max_response_tokens, pl.Int64)),
        pl.coalesce("temperature", pl.lit(config.temperature, pl.Float64)),
        pl.col("policy_version").fill_null(0),
        model=pl.lit(recording.model),
        tokens_from=pl.lit("count"),
    )
    responses = _with_domains(responses, prompts)
    if tokenizer is not None:
        responses = count_tokens(responses, tokenizer)
        responses = count_prompt_tokens(responses, prompts, tokenizer)
    is_end_unsaid = pl.all_horizontal(
        pl.col("finish_reason", "capped", "max_response_tokens").is_null()
    )
    profile = with_finish_reason(responses).select(Profile.column_names())
    return profile, {
        "num_recorded": recording.num_rows,
        "num_recorded_of_model": len(recording.frame) + recording.num_relogged,
        "num_relogged": recording.num_relogged,
        "num_unmatched": joined.num_unmatched,
        "num_repeated": joined.num_repeated,
        "num_renumbered": joined.num_renumbered,
        "num_joined": len(joined.frame),
        "num_prompts_answered": len(answered),
        "num_tokens_from_text": responses.select((pl.col("tokens_from") == "text").sum()).item(),
        "num_end_unsaid": responses.select(is_end_unsaid.sum()).item(),
        **results_of(profile, prompts),
    }


def _with_domains(responses: pl.DataFrame, prompts: PromptFile) -> pl.DataFrame:
    """The responses with the domain of their prompt where they do not say one themselves."""
    of_prompts = different(prompts.frame).select("prompt_hash", its_domain="domain")
    joined = responses.join(of_prompts, on="prompt_hash", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("domain", "its_domain")).drop("its_domain")


def run_rollouts(
    source: str, rollouts: str, output: str, config: RolloutsConfig, force: bool = False
) -> None:
    """Read prompts and recorded responses, join, write the profile, say what came out."""
    check_output(output, force)
    if config.id_column is not None and source == STDIO:
        raise AspError("--rollouts-id-column: needs the prompts as a file, not on standard input")
    prompts = read_prompts(source, config.prompt_column, config.domain_column)
    recording = read_recording(
        rollouts, Selection(config.format, config.columns, config.id_column, config.model)
    )
    tokenizer = _tokenizer_for(recording, config)
    recording, keys, column = keyed(recording, prompts, config.id_column, tokenizer)
    joined = join(recording, prompts, keys, column)
    profile, results = profile_rollouts(recording, prompts, joined, config, tokenizer)
    _tell_of_rollouts(recording, joined, results, tokenizer)
    tell(results)
    settings = asdict(config) | {
        "source": "rollouts",
        "format": recording.layout.name,
        "model": recording.model,
        "tokenizer": tokenizer.name if tokenizer else None,
        "tokenizer_sha256": tokenizer.digest() if tokenizer else None,
    }
    recorded = Input("rollouts", recording.sha256, recording.provenance)
    write(profile, output, settings, results, (Input("prompts", prompts.sha256), recorded), force)


def _tokenizer_for(recording: Recording, config: RolloutsConfig) -> Tokenizer | None:
    if config.tokenizer is None:
        if recording.frame.get_column("response_tokens").has_nulls():
            raise AspError(
                f"{recording.name}: holds the text of the responses, not their length; give "
                "--tokenizer DIR_OR_NAME to count it, or --rollouts-tokens-column NAME"
            )
        return None
    from stages.tokens.tokenizer import PromptTokenizer

    return PromptTokenizer(config.tokenizer)


def _tell_of_rollouts(
    recording: Recording, joined: Joined, results: Mapping[str, Any], tokenizer: Tokenizer | None
) -> None:
    if recording.layout != PLAIN:
        log.info("%s: read as a log of %s", recording.name, recording.layout.name)
    if tokenizer is not None and results["num_tokens_from_text"]:
        log.info(
            "response_tokens counted from text with the tokenizer %s, "
            "one more for the end token where a response stopped", tokenizer.name,
        )  # fmt: skip
    if recording.model == UNNAMED_MODEL:
        log.info("no column says which model answered; name it with --rollouts-model NAME")
    if results["num_relogged"]:
        log.info("%d responses were logged again at a later step", results["num_relogged"])
    if results["num_unmatched"]:
        log.info(
            "%d recorded responses are to prompts that are not in the prompt file; left out; "
            "one of these prompts is %r",
            results["num_unmatched"], shorten(joined.unmatched, 60),
        )  # fmt: skip
    for count, words in {
        "num_repeated": "repeat an earlier row in everything; each is taken once",
        "num_renumbered": "have a sample_index that does not tell a prompt's apart; numbered anew",
        "num_end_unsaid": "have no finish_reason and no cap, and count as stopped; "
        "give --max-response-tokens if there was a cap",
    }.items():
        if results[count]:
            log.warning("%d recorded responses %s", results[count], words)
