"""A profile of a model's own answers: on this machine, or from servers.

What is asked, and in which order, is `design.py`; what asks, an engine (`engine.py`).

    asp profile prompts.parquet --model Qwen/Qwen2.5-0.5B-Instruct -o profile.parquet
    asp profile prompts.parquet --endpoint http://localhost:8000 --model NAME -o profile.parquet
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from stages.profile.allowance import Allowance
from stages.profile.asking import as_rows, ask
from stages.profile.design import NUM_FIRST, design, requests_for
from stages.profile.endpoint.settings import EndpointSettings
from stages.profile.engine import Engine, InBatches, LocalEngine, Sampling, check_installed
from stages.profile.forecast import Outlook
from stages.profile.journal import open_journal
from stages.profile.output import results_of, tell, write
from stages.profile.sampling import different
from stages.tables.errors import AspError, log
from stages.tables.io import check_output
from stages.tables.prompt_survey import PromptFile, read_prompts
from stages.tables.prompts import DEFAULT_PROMPT_COLUMN
from stages.tables.provenance import Input
from stages.tables.schemas import Profile

BATCH_SIZE: dict[LocalEngine, int] = {"transformers": 16, "vllm": 256}  # unless another is given


@dataclass(frozen=True)
class ModelConfig:
    """How to ask a model."""

    model: str  # directory or name; of an endpoint: its name there
    max_response_tokens: int = 2048  # the cap
    temperature: float = 1.0  # as RL training samples; 0 is greedy
    rollouts_per_prompt: int | None = None  # None: few of each, more of some (design.py)
    num_prompts: int | None = None  # at most; None: all
    max_profile_tokens: int | None = None  # response tokens to be made; None: no limit
    batch_size: int = BATCH_SIZE["transformers"]  # responses made together on this machine
    engine: LocalEngine = "transformers"  # on this machine
    endpoint: EndpointSettings | None = None  # None: on this machine
    uses_template: bool = True  # apply the chat template where there is one
    prompt_column: str = DEFAULT_PROMPT_COLUMN
    domain_column: str | None = None  # of the prompts; None: `domain` where there is one
    seed: int = 0  # of the choice of prompts and of the responses


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
    return profile, results_of(profile, prompts)


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
    sampling = Sampling(config.temperature, config.max_response_tokens)
    engine = (open_engine or _open_engine)(config)
    if is_dry:  # whole batches, so that the run that goes on from there cuts them alike
        size = engine.batch_size if isinstance(engine, InBatches) else 1
        requests = requests[: -(-len(first) // size) * size]
    log.info(
        "%d responses to %d of %d prompts are asked for",
        asked.get_column("num_samples").sum(), len(asked), len(different(prompts.frame)),
    )  # fmt: skip
    of_no_effect = ("endpoint", "batch_size")  # on the answers, unless the engine says so
    settings = {name: value for name, value in asdict(config).items() if name not in of_no_effect}
    settings |= {"model": engine.model} | engine.describe()
    of_answers = {name: value for name, value in settings.items() if name != "max_profile_tokens"}
    with open_journal(output, of_answers | {"prompts": prompts.sha256}, force) as journal:
        allowance = Allowance(config.max_profile_tokens)
        answers = ask(engine, requests, journal, sampling, allowance, outlook)
        if is_dry:
            log.info("a dry run: nothing is written; without --dry-run it goes on from here")
            return
        if not answers:
            raise AspError("no prompt can be answered, as said above; there is no profile")
        responses = as_rows(requests, answers)
        profile, results = profile_model(responses, engine.model, prompts, config)
        if allowance.is_spent and len(responses) < len(requests):
            log.info(
                "--max-profile-tokens %s is spent: %d of %d responses were not asked for",
                f"{config.max_profile_tokens:,}", len(requests) - len(responses), len(requests),
            )  # fmt: skip
        tell(results)
        write(
            profile,
            output,
            settings | {"source": "model"},
            results,
            (Input("prompts", prompts.sha256),),
            force,
        )
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
    check_installed(config.engine)
    if config.engine == "vllm":
        from stages.profile.vllm_engine import VllmEngine

        return VllmEngine(config.model, config.batch_size, config.uses_template, config.seed)
    from stages.profile.transformers_engine import TransformersEngine

    engine = TransformersEngine(config.model, config.uses_template)
    return InBatches(engine, config.batch_size, config.seed)
