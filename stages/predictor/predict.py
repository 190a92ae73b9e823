"""How long will the responses to each prompt be?

In: prompts and a predictor directory. Out: lengths, a row a prompt in the order of the file.

    asp predict prompts.parquet --predictor predictor/ -o lengths.parquet
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from stages.lengths import table as lengths_table
from stages.predictor.backend import Predictor
from stages.predictor.directory import Stored, load_predictor
from stages.predictor.evaluation.familiarity import warn_of_unlike
from stages.predictor.observations import Domain
from stages.tables.errors import log
from stages.tables.io import check_output, hash_directory, write_table
from stages.tables.prompts import DEFAULT_PROMPT_COLUMN, read_prompts
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Lengths

TRUSTED = "it is used all the same, as --trust-predictor says"
DISTRUSTED = (
    "all prompts get the one distribution of the profile's responses, which orders nothing; give "
    "--trust-predictor to use it all the same"
)


@dataclass(frozen=True)
class PredictConfig:
    """How training will sample."""

    samples_per_prompt: int = 1  # the n of training
    max_response_tokens: int | None = None  # the cap of training; None: the profile's largest
    temperature: float | None = None  # of training; None: as in the profile
    trust_predictor: bool = False  # even where it has not shown that it knows more than the profile


def predict(
    prompts: pl.DataFrame, predictor: Predictor, cap: int, samples_per_prompt: int
) -> pl.DataFrame:
    """The lengths table of some prompts.

    Args:
        prompts: Schema Prompts.
        predictor: A fitted one.
        cap: Longest response allowed in training, in tokens.
        samples_per_prompt: Responses to a prompt in training.
    """
    prediction = predictor.predict(
        prompts.get_column("prompt").to_list(), prompts.get_column("domain").to_list()
    )
    lengths = prompts.select("prompt_id", "prompt_hash", "domain").with_columns(
        **lengths_table.columns(prediction.with_cap(cap)), cap=pl.lit(cap, dtype=pl.Int64)
    )
    return lengths_table.complete(lengths, samples_per_prompt)


def differences(domain: Domain, config: PredictConfig) -> Iterable[str]:
    """In what training will sample otherwise than the profile did."""
    cap, n = config.max_response_tokens, config.samples_per_prompt
    if cap is not None and domain.is_cap_recorded and cap != domain.cap:
        yield f"cap {domain.cap} there, {cap} here"
    if config.temperature is not None and domain.temperatures not in ((), (config.temperature,)):
        there = " and ".join(f"{t:g}" for t in domain.temperatures)
        yield f"temperature {there} there, {config.temperature:g} here"
    if n > domain.most_samples:
        yield f"at most {domain.most_samples} samples a prompt there, {n} here"


def run(
    source: str,
    predictor: str,
    output: str,
    config: PredictConfig,
    prompt_column: str = DEFAULT_PROMPT_COLUMN,
    force: bool = False,
    base_model: str | None = None,
    domain_column: str | None = None,
) -> None:
    """Read prompts and predictor, predict, write lengths, say what came out."""
    check_output(output, force)
    stored = load_predictor(predictor, base_model)
    prompts = read_prompts(source, prompt_column, domain_column)
    cap = config.max_response_tokens or stored.domain.cap
    _warn(stored, config, cap)
    chosen: Predictor = stored.predictor
    if stored.marginal and not config.trust_predictor:
        chosen = stored.marginal
    else:
        unlike = warn_of_unlike(
            stored.words, prompts.frame.get_column("prompt").to_list(), stored.usual_unseen_share
        )
        if unlike:
            log.warning(unlike)
    lengths = predict(prompts.frame, chosen, cap, config.samples_per_prompt)
    log.info(
        "%d prompts, expected length %.0f tokens on average, from %.0f to %.0f; "
        "%.1f%% of responses expected to meet the cap of %d",
        len(lengths), lengths["expected_tokens"].mean(), lengths["expected_tokens"].min(),
        lengths["expected_tokens"].max(), 100 * float(lengths["p_cap"].mean()), cap,  # type: ignore[arg-type]
    )  # fmt: skip
    provenance = Provenance(
        stage="predict",
        schema="lengths/1",
        config=asdict(config) | {"max_response_tokens": cap, "prompt_column": prompt_column},
        inputs=(
            Input("prompts", prompts.sha256),
            Input("predictor", hash_directory(Path(predictor)), stored.provenance),
        ),
    )
    write_table(lengths, Lengths, output, provenance, force)


def _warn(stored: Stored, config: PredictConfig, cap: int) -> None:
    different = list(differences(stored.domain, config))
    if different:
        log.warning(
            "the profile was made otherwise than training will sample: %s; "
            "lengths may be off", "; ".join(different),
        )  # fmt: skip
    if config.max_response_tokens is None and not stored.domain.is_cap_recorded:
        log.warning(
            "the profile records no cap: its longest response, %d tokens, stands for it; "
            "give --max-response-tokens", cap,
        )  # fmt: skip
    if stored.marginal:
        why = f"learned from {stored.domain.num_prompts} prompts only"
        if stored.scores is None or not stored.scores.beats_prompt_length:
            why = "did not beat the length of the prompt on held-out prompts"
        log.warning("this predictor %s: %s", why, TRUSTED if config.trust_predictor else DISTRUSTED)
    if config.samples_per_prompt > 1 and stored.predictor.spread.sample_share is None:
        log.warning(
            "chance between samples is not known from this profile: the expected longest of %d "
            "takes all spread for chance", config.samples_per_prompt,
        )  # fmt: skip
