"""How long are the target model's responses?

In: the prompts, and either recorded rollouts (`rollouts.py`) or the model itself (an engine,
`engine.py`). Out: profile, a row a response. The prompts are a seeded sample, stratified by
length (`sampling.py`); several responses a prompt tell chance within a prompt from differences
between prompts, which the length distributions of later stages rest on.

    asp profile prompts.parquet --rollouts rollouts.jsonl -o profile.parquet
    asp profile prompts.parquet --model Qwen/Qwen2.5-0.5B-Instruct -o profile.parquet
    asp profile prompts.parquet --endpoint http://localhost:8000 --model NAME -o profile.parquet
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from stages.profile.allowance import Allowance
from stages.profile.asking import as_rows, ask
from stages.profile.design import NUM_FIRST, design, requests_for
from stages.profile.endpoint.settings import EndpointSettings
from stages.profile.engine import Engine, InBatches, Sampling
from stages.profile.forecast import Outlook
from stages.profile.journal import open_journal
from stages.profile.keys import Tokenizer, decoded, id_keys, text_keys
from stages.profile.logs import Format
from stages.profile.logs.plain import PLAIN
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
from stages.tables.io import STDIO, check_output, read_bytes, write_table
from stages.tables.prompt_survey import PromptFile, read_prompts
from stages.tables.prompts import DEFAULT_PROMPT_COLUMN, parse_records
from stages.tables.provenance import Input, Provenance
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


@dataclass(frozen=True)
class ModelConfig:
    """How to ask a model."""

    model: str  # directory or name; of an endpoint: its name there
    max_response_tokens: int = 2048  # the cap
    temperature: float = 1.0  # as RL training samples; 0 is greedy
    rollouts_per_prompt: int | None = None  # None: few of each, more of some (design.py)
    num_prompts: int | None = None  # at most; None: all
    max_profile_tokens: int | None = None  # response tokens to be made; None: no limit
    batch_size: int = 16  # responses generated together on this machine
    endpoint: EndpointSettings | None = None  # None: on this machine
    uses_template: bool = True  # apply the chat template where there is one
    prompt_column: str = DEFAULT_PROMPT_COLUMN
    domain_column: str | None = None  # of the prompts; None: `domain` where there is one
    seed: int = 0  # of the choice of prompts and of the responses


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
        **_results(profile, prompts),
    }


def _with_domains(responses: pl.DataFrame, prompts: PromptFile) -> pl.DataFrame:
    """The responses with the domain of their prompt where they do not say one themselves."""
    of_prompts = different(prompts.frame).select("prompt_hash", its_domain="domain")
    joined = responses.join(of_prompts, on="prompt_hash", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("domain", "its_domain")).drop("its_domain")


def profile_model(
    responses: pl.DataFrame,
    model: str,
    prompts: PromptFile,
    config: ModelConfig,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Make the profile table of a model's answers (`asking.as_rows`).

    Returns:
        The table, and what is to be said of it: counts of rows and prompts, the share at the cap.
    """
    profile = (
        responses.join(prompts.frame, on="prompt_id")
        .with_columns(
            model=pl.lit(model),
            max_response_tokens=pl.lit(config.max_response_tokens, pl.Int64),
            temperature=pl.lit(config.temperature, pl.Float64),
            policy_version=pl.lit(0, pl.Int64),
        )
        .select(Profile.column_names())
        .sort("prompt_id", "sample_index")
    )
    return profile, _results(profile, prompts)


def _results(profile: pl.DataFrame, prompts: PromptFile) -> dict[str, Any]:
    is_at_cap = profile.get_column("finish_reason").cast(pl.String) == "length"
    return {
        "num_responses": len(profile),
        "num_prompts": profile.get_column("prompt_hash").n_unique(),
        "num_prompts_given": prompts.frame.get_column("prompt_hash").n_unique(),
        "share_at_cap": int(is_at_cap.sum()) / len(profile),
    }


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
    if config.id_column is None:
        recording = decoded(recording, tokenizer)
        keys = text_keys(recording, prompts, tokenizer)
    else:
        keys = id_keys(parse_records(*read_bytes(source)), config.id_column, prompts)
    joined = join(recording, prompts, keys, "text" if config.id_column is None else "id")
    profile, results = profile_rollouts(recording, prompts, joined, config, tokenizer)
    _tell_of_rollouts(recording, joined, results, tokenizer)
    _tell(results)
    settings = asdict(config) | {
        "source": "rollouts",
        "format": recording.layout.name,
        "model": recording.model,
        "tokenizer": tokenizer.name if tokenizer else None,
        "tokenizer_sha256": tokenizer.digest() if tokenizer else None,
    }
    recorded = Input("rollouts", recording.sha256, recording.provenance)
    _write(profile, output, settings, results, (_input(prompts), recorded), force)


def run_model(
    source: str,
    output: str,
    config: ModelConfig,
    force: bool = False,
    is_dry: bool = False,
    open_engine: Callable[[ModelConfig], Engine] | None = None,
) -> None:
    """Read prompts, ask the model, say what it will cost, write the profile, say what came out.

    A killed run leaves OUTPUT.journal, from which the same command goes on. So does a dry one,
    which ends when the cost is said.
    """
    check_output(output, force)
    prompts = read_prompts(source, config.prompt_column, config.domain_column)
    asked = _designed(prompts, config)
    requests = requests_for(asked, prompts)
    first = requests[: min(NUM_FIRST, len(asked))]
    outlook = Outlook(
        first, asked.get_column("num_samples").to_list(), config.max_response_tokens, config.seed
    )
    if is_dry:  # whole batches, so that the run that goes on from there cuts them alike
        requests = requests[: -(-len(first) // config.batch_size) * config.batch_size]
    sampling = Sampling(config.temperature, config.max_response_tokens)
    engine = (open_engine or _open_engine)(config)
    log.info(
        "%d responses to %d of %d prompts are asked for",
        asked.get_column("num_samples").sum(), len(asked), len(different(prompts.frame)),
    )  # fmt: skip
    settings = asdict(config) | {"model": engine.model} | engine.describe()
    del settings["endpoint"]  # where it was asked, and how: of no effect on the answers
    of_answers = {name: value for name, value in settings.items() if name != "max_profile_tokens"}
    with open_journal(output, of_answers | {"prompts": prompts.sha256}, force) as journal:
        allowance = Allowance(config.max_profile_tokens)
        answers = ask(engine, requests, journal, sampling, allowance, outlook)
        if is_dry:
            log.info("a dry run: nothing is written; without --dry-run it goes on from here")
            return
        if not answers:
            raise AspError("the server refuses every prompt, as said above; there is no profile")
        responses = as_rows(requests, answers)
        profile, results = profile_model(responses, engine.model, prompts, config)
        if allowance.is_spent and len(responses) < len(requests):
            log.info(
                "--max-profile-tokens %s is spent: %d of %d responses were not asked for",
                f"{config.max_profile_tokens:,}", len(requests) - len(responses), len(requests),
            )  # fmt: skip
        _tell(results)
        _write(profile, output, settings | {"source": "model"}, results, (_input(prompts),), force)
        journal.discard()


def _designed(prompts: PromptFile, config: ModelConfig) -> pl.DataFrame:
    """The prompts that are asked and how often."""
    is_greedy = config.temperature == 0
    if is_greedy and (config.rollouts_per_prompt or 1) > 1:
        log.warning(
            "--temperature 0 is greedy: the %d responses of a prompt will be the same; "
            "--rollouts-per-prompt 1 would do", config.rollouts_per_prompt,
        )  # fmt: skip
    return design(
        prompts.frame,
        config.num_prompts,
        config.rollouts_per_prompt or (1 if is_greedy else None),
        config.seed,
    )


def _open_engine(config: ModelConfig) -> Engine:
    if config.endpoint is not None:
        from stages.profile.endpoint.engine import EndpointEngine

        return EndpointEngine(config.endpoint, config.model, config.uses_template, config.seed)
    from stages.profile.transformers_engine import TransformersEngine

    engine = TransformersEngine(config.model, config.uses_template)
    return InBatches(engine, config.batch_size, config.seed)


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


def _tell(results: Mapping[str, Any]) -> None:
    log.info(
        "%d responses to %d of %d prompts, %.1f%% of them at the cap",
        results["num_responses"], results["num_prompts"], results["num_prompts_given"],
        100 * results["share_at_cap"],
    )  # fmt: skip


def _input(prompts: PromptFile) -> Input:
    return Input("prompts", prompts.sha256)


def _write(
    profile: pl.DataFrame,
    output: str,
    settings: dict[str, Any],
    results: dict[str, Any],
    inputs: tuple[Input, ...],
    force: bool,
) -> None:
    seed = settings.pop("seed")
    provenance = Provenance("profile", "profile/1", settings, seed, results, inputs)
    write_table(profile, Profile, output, provenance, force)
