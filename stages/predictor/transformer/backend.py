"""Is it worth asking a language model, and tuning it?

Frozen states first, with every prompt held out once. Then, once, tuning: the first fold is held
out from it, a tenth of the other prompts decides when it stops. It replaces the frozen states only
if it orders that fold better. Whichever is kept is averaged with the embedded predictor, by shares
that the held-out predictions tell; a share of 0 leaves the embedded predictor alone.

Arrays end in an axis legend: _p prompts.
"""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stages.predictor import embedded
from stages.predictor.backend import HeldOut, Ints, Observations, Prediction, TransformerOptions
from stages.predictor.crossval import assign_folds
from stages.predictor.ridge import fit_censored_ridge
from stages.predictor.spread import Spread, fit_spread
from stages.predictor.transformer.base import Base, load_base
from stages.predictor.transformer.encode import Tokens, encode
from stages.predictor.transformer.frozen import Frozen, fit_frozen, order_tau
from stages.predictor.transformer.journal import Journal
from stages.predictor.transformer.memory import Memory
from stages.predictor.transformer.model import LengthModel, needs_adapters
from stages.predictor.transformer.predictor import (
    FrozenReader,
    Reader,
    Reading,
    TransformerPredictor,
    TunedReader,
)
from stages.predictor.transformer.states import PASS_TOKENS, Floats32, pooled_states
from stages.predictor.transformer.team import Team, join_team
from stages.predictor.transformer.tune import read, tune
from stages.tables.errors import log

SHARES = np.arange(11) / 10  # tried for the mean with the embedded predictor
ASIDE = 10  # one in so many prompts decides when tuning stops
FEWEST_TUNED = 200  # prompts; with fewer, tuning has nothing to stop by


@dataclass(frozen=True)
class _Case:
    """What is learned from, in every form that the readers need."""

    observations: Observations
    prompts: list[Tokens]
    state_pd: Floats32
    fold_p: Ints
    seed: int
    options: TransformerOptions


class _Candidate(NamedTuple):
    """A reader, and what readers like it said of prompts held out from them; NaN of others."""

    reader: Reader
    reading: Reading


def fit(
    observations: Observations,
    num_folds: int,
    seed: int,
    options: TransformerOptions,
    journal: Journal,
    force: bool = False,
) -> tuple[TransformerPredictor, HeldOut | None]:
    """Fit the predictor, and predict prompts by fits that have not seen them.

    Args:
        observations: What the target model answered.
        num_folds: Folds of the cross-validation, at least 2.
        seed: Of everything random.
        options: The base model, and how to use it.
        journal: Not yet open; holds what a killed run had finished.
        force: Start over where the journal is of other settings.

    Returns:
        The predictor, and held-out predictions: of all prompts, or of the first fold where the
        tuned model is kept; None where all prompts are one text, and nothing can be held out.

    Raises:
        AspError: The base model cannot be used, or the journal is of another run.
    """
    team = join_team()
    base = load_base(options.base_model)
    digest = base.digest()
    if team.rank == 0:
        journal.open(_settings(observations, num_folds, seed, options, digest), force)
    team.wait()
    fallback, held_out = embedded.fit(observations, num_folds, seed)
    prompts = encode(base, observations.texts, options.max_prompt_tokens)
    state_pd = pooled_states(base, prompts, journal, team)

    def predictor(reader: Reader, share: float, spread: Spread) -> TransformerPredictor:
        return TransformerPredictor(
            fallback, reader, digest, options.max_prompt_tokens, share, spread
        )

    if held_out is None:
        only = fit_censored_ridge(state_pd, observations)
        return predictor(FrozenReader(base, only.ridge, only.sigma), 0.0, fallback.spread), None

    case = _Case(observations, prompts, state_pd, held_out.fold_p, seed, options)
    frozen = fit_frozen(state_pd, observations, held_out.fold_p, seed)
    log.info(
        "held-out tau: embedded %.3f, frozen states of the base model %.3f",
        order_tau(held_out.prediction.mu_p, observations), frozen.tau,
    )  # fmt: skip
    reader, reading = _better(base, frozen, case, journal, team)
    is_out_p = ~np.isnan(reading.mu_p)
    judged = observations.subset(is_out_p)
    reading = Reading(*(value_p[is_out_p] for value_p in reading))
    beside = Prediction(*(value_p[is_out_p] for value_p in held_out.prediction))
    share = _choose_share(reading, beside, judged)
    mixed = reading.blend(beside, share)
    log.info(
        "held-out tau: %.3f, the base model counting %.0f%%; embedded alone %.3f (prompts: %d)",
        order_tau(mixed.mu_p, judged), 100 * share, order_tau(beside.mu_p, judged), len(mixed.mu_p),
    )  # fmt: skip
    spread, told = fit_spread(*mixed, judged)
    prediction = Prediction(*(np.full(len(prompts), np.nan) for _ in Prediction._fields))
    for whole_p, part_p in zip(prediction, told, strict=True):
        whole_p[is_out_p] = part_p
    team.wait()  # the first one deletes the journal
    fold_p = np.where(is_out_p, held_out.fold_p, -1)
    return predictor(reader, share, spread), HeldOut(prediction, fold_p)


def _better(base: Base, frozen: Frozen, case: _Case, journal: Journal, team: Team) -> _Candidate:
    """The tuned base model if it orders the first fold better than its frozen states do."""
    num_prompts, max_epochs = len(case.prompts), case.options.max_epochs
    reading = Reading(frozen.mu_p, np.full(num_prompts, frozen.sigma))
    if max_epochs and num_prompts < FEWEST_TUNED:
        log.warning(
            "%d prompts are too few to tune the base model (%d are enough): its frozen states are "
            "used", num_prompts, FEWEST_TUNED,
        )  # fmt: skip
    if not max_epochs or num_prompts < FEWEST_TUNED:
        return _Candidate(FrozenReader(base, frozen.ridge, frozen.sigma), reading)
    tuned = _tune(base, frozen.linear_penalty, case, journal, team)
    is_out_p = case.fold_p == 0
    fold = case.observations.subset(is_out_p)
    tuned_tau, frozen_tau = (order_tau(r.mu_p[is_out_p], fold) for r in (tuned.reading, reading))
    is_better = tuned_tau > frozen_tau
    log.info(
        "held-out tau on one fold (prompts: %d): tuned %.3f, frozen states %.3f: %s",
        is_out_p.sum(), tuned_tau, frozen_tau,
        "the tuned model is kept" if is_better else "tuning gains nothing, the states are kept",
    )  # fmt: skip
    if is_better:
        return tuned
    again = load_base(case.options.base_model)  # the other one was tuned in place
    return _Candidate(FrozenReader(again, frozen.ridge, frozen.sigma), reading)


def _tune(base: Base, penalty: float, case: _Case, journal: Journal, team: Team) -> _Candidate:
    """Tune the base model on all folds but the first, and let it read that one."""
    is_out_p = case.fold_p == 0
    learned = case.observations.subset(~is_out_p)
    is_aside_p = assign_folds(learned.texts, ASIDE, case.seed) == 0
    model = LengthModel(base, has_adapters=needs_adapters(base))
    final_pd = case.state_pd[~is_out_p][~is_aside_p, -base.width :]
    model.start_from(final_pd, learned.subset(~is_aside_p), penalty)
    prompts: list[Tokens] = []
    out: list[Tokens] = []
    for ids, is_out in zip(case.prompts, is_out_p, strict=True):
        (out if is_out else prompts).append(ids)
    max_epochs = case.options.max_epochs
    tune(model, prompts, learned, is_aside_p, max_epochs, case.seed, journal, team)
    told = read(model, out, Memory(PASS_TOKENS[base.device.type]), team)
    reading = Reading(*(np.full(len(is_out_p), np.nan) for _ in Reading._fields))
    for whole_p, part_p in zip(reading, told, strict=True):
        whole_p[is_out_p] = part_p
    return _Candidate(TunedReader(base, model), reading)


def _choose_share(reading: Reading, embedded_said: Prediction, observations: Observations) -> float:
    """The share that orders held-out prompts best; the smallest of equals."""
    return float(
        max(SHARES, key=lambda s: order_tau(reading.blend(embedded_said, s).mu_p, observations))
    )


def _settings(
    observations: Observations, num_folds: int, seed: int, options: TransformerOptions, digest: str
) -> dict[str, object]:
    """All that decides what the journal holds."""
    content = hashlib.sha256("\0".join(observations.texts).encode())
    for array in (observations.prompt_s, observations.log_tokens_s, observations.is_censored_s):
        content.update(np.ascontiguousarray(array).tobytes())
    return {
        "profile": content.hexdigest(),
        "folds": num_folds,
        "seed": seed,
        "base model": digest,
        "max-prompt-tokens": options.max_prompt_tokens,
        "max-epochs": options.max_epochs,
    }
