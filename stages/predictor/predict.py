"""How long will the responses to each prompt be?

In: prompts and a predictor directory. Out: lengths, a row a prompt in the order of the file.

    asp predict prompts.parquet --predictor predictor/ -o lengths.parquet
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stages.lengths import table as lengths_table
from stages.predictor.backend import Predictor
from stages.predictor.directory import Stored, load_predictor
from stages.predictor.evaluation.familiarity import MAX_PROMPTS, warn_of_unlike
from stages.predictor.observations import Domain
from stages.tables.errors import AspError, each_warning_once, log
from stages.tables.io import check_output, hash_directory
from stages.tables.prompt_stream import TOKENS_COLUMN, PromptBatch
from stages.tables.prompt_survey import PromptColumns, open_prompts
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Lengths
from stages.tables.stream import write_batches

if TYPE_CHECKING:  # needs transformers
    from stages.tokens.tokenizer import PromptTokenizer

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
    tokenizer: str | None = None  # directory or name; counts the tokens of the prompts


def predict(
    prompts: pl.DataFrame, predictor: Predictor, cap: int, samples_per_prompt: int
) -> pl.DataFrame:
    """The lengths table of some prompts.

    Args:
        prompts: Schema Prompts; further columns go on.
        predictor: A fitted one.
        cap: Longest response allowed in training, in tokens.
        samples_per_prompt: Responses to a prompt in training.
    """
    prediction = predictor.predict(
        prompts.get_column("prompt").to_list(), prompts.get_column("domain").to_list()
    )
    lengths = prompts.drop("prompt").with_columns(
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


@dataclass(frozen=True)
class Forecaster:
    """What turns a batch of prompts into rows of the lengths table."""

    predictor: Predictor
    cap: int  # tokens
    samples_per_prompt: int
    tokenizer: "PromptTokenizer | None"  # counts prompt_tokens where they are null

    def __call__(self, batch: PromptBatch) -> pl.DataFrame:
        """The rows of the batch, in its order."""
        prompts = batch.frame
        if self.tokenizer is not None:
            given = prompts.get_column(TOKENS_COLUMN).to_list()
            tokens = [
                len(self.tokenizer.encode_prompt(prompt)) if known is None else known
                for known, prompt in zip(given, batch.raw, strict=True)
            ]
            prompts = prompts.with_columns(pl.Series(TOKENS_COLUMN, tokens, pl.Int64))
        return predict(prompts, self.predictor, self.cap, self.samples_per_prompt)


class Tally:
    """What is said of the lengths, kept as their batches go by."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._num_prompts = 0
        self._tokens = self._at_cap = 0.0
        self._shortest, self._longest = np.inf, 0.0

    def count(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The same frames."""
        for frame in frames:
            tokens_p = frame.get_column("expected_tokens").to_numpy()
            self._num_prompts += len(frame)
            self._tokens += float(tokens_p.sum())
            self._at_cap += float(frame.get_column("p_cap").to_numpy().sum())
            self._shortest = min(self._shortest, float(tokens_p.min()))
            self._longest = max(self._longest, float(tokens_p.max()))
            yield frame

    def tell(self) -> None:
        """Say it."""
        log.info(
            "%d prompts, expected length %.0f tokens on average, from %.0f to %.0f; "
            "%.1f%% of responses expected to meet the cap of %d",
            self._num_prompts, self._tokens / self._num_prompts, self._shortest, self._longest,
            100 * self._at_cap / self._num_prompts, self._cap,
        )  # fmt: skip


def load_forecaster(stored: Stored, config: PredictConfig) -> Forecaster:
    """What a predictor directory and the settings make of a batch, in whatever process."""
    chosen: Predictor = stored.predictor
    if stored.marginal and not config.trust_predictor:
        chosen = stored.marginal
    tokenizer = None
    if config.tokenizer is not None:
        from stages.tokens.tokenizer import PromptTokenizer

        tokenizer = PromptTokenizer(config.tokenizer)
    cap = config.max_response_tokens or stored.domain.cap
    return Forecaster(chosen, cap, config.samples_per_prompt, tokenizer)


def run(
    source: str,
    predictor: str,
    output: str,
    config: PredictConfig,
    columns: PromptColumns,
    force: bool = False,
    base_model: str | None = None,
    ray_address: str | None = None,
) -> None:
    """Survey prompts, read the predictor, predict in batches, write lengths, say what came out.

    No stage of it holds all prompts: 8 bytes each while they are surveyed, else a batch. The rows
    of a batch depend on their place in the file alone, so the bytes written are the same from a
    pipe and from a Ray cluster.
    """
    check_output(output, force)
    _refuse_kept(columns)
    stored = load_predictor(predictor, base_model)
    forecast = load_forecaster(stored, config)
    with open_prompts(source, columns) as prompts:
        _warn(stored, config, forecast.cap)
        if forecast.predictor is stored.predictor:
            looked_at = prompts.sample(MAX_PROMPTS)
            unlike = warn_of_unlike(stored.words, looked_at, stored.usual_unseen_share)
            if unlike:
                log.warning(unlike)
        if ray_address is None:
            frames: Iterable[pl.DataFrame] = map(forecast, prompts.batches())
        else:
            from stages.predictor.shards import predict_on_ray

            frames = predict_on_ray(ray_address, prompts, predictor, base_model, config)
        tokenizer = forecast.tokenizer
        settings = asdict(config) | {
            "max_response_tokens": forecast.cap,
            "prompt_column": columns.prompt,
            "keep_columns": list(columns.kept),
            "tokenizer": tokenizer.name if tokenizer else None,
            "tokenizer_sha256": tokenizer.digest() if tokenizer else None,
        }
        provenance = Provenance(
            stage="predict",
            schema="lengths/1",
            config=settings,
            inputs=(
                Input("prompts", prompts.sha256),
                Input("predictor", hash_directory(Path(predictor)), stored.provenance),
            ),
        )
        tally = Tally(forecast.cap)
        with each_warning_once():
            write_batches(tally.count(frames), Lengths, output, provenance, force)
        tally.tell()


def _refuse_kept(columns: PromptColumns) -> None:
    """Refuse columns that would hide one of the table, or copy the prompts into it."""
    for name in columns.kept:
        if name == columns.prompt:
            raise AspError(
                f"--keep-column {name}: is the column of the prompts, whose text is not copied "
                "into lengths; leave it out"
            )
        if name in Lengths.column_names():
            raise AspError(
                f"--keep-column {name}: the lengths table has a column of that name of its own; "
                "rename yours"
            )


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
