"""How long will the target model's responses be, given what it answered in the profile?

In: profile. Out: a predictor directory, with held-out predictions and their scores in it
(StreamRL, arXiv 2504.15930, section 4.2, ranks by a fitted length predictor; the distribution, the
censoring and the scores are ours).

    asp train-predictor profile.parquet -o predictor/
"""

from dataclasses import asdict, dataclass, replace
from typing import Literal

import polars as pl

from stages.predictor import embedded
from stages.predictor.backend import HeldOut
from stages.predictor.directory import HELDOUT, MANIFEST, Stored, save_predictor
from stages.predictor.observations import Evidence, observe
from stages.predictor.scores import Scores, heldout_table, score
from stages.predictor.spread import ENOUGH_PROMPTS
from stages.tables.derived import complete_profile
from stages.tables.errors import AspError, log
from stages.tables.io import check_directory, new_directory, read_table, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Heldout, Profile

Backend = Literal["embedded", "transformer"]


@dataclass(frozen=True)
class TrainConfig:
    """How to train."""

    backend: Backend = "embedded"
    folds: int = 5  # of the cross-validation, by prompt; at least 2
    seed: int = 0
    profile_model: str | None = None  # the model to learn; None: the only one
    policy_version: int | None = None  # the policy version to learn; None: the only one


@dataclass(frozen=True)
class Training:
    """A fitted predictor and how it does on prompts it has not seen."""

    predictor: embedded.EmbeddedPredictor
    held_out: pl.DataFrame | None  # schema Heldout; None where nothing could be held out or scored
    scores: Scores | None  # of held_out


def train(evidence: Evidence, config: TrainConfig) -> Training:
    """Fit a predictor to one model's responses and score it on held-out prompts.

    Raises:
        AspError: The backend is not in this build.
    """
    if config.backend != "embedded":
        raise AspError(f"backend {config.backend!r} is not available yet; use --backend embedded")
    predictor, held_out = embedded.fit(evidence.observations, config.folds, config.seed)
    if held_out is None or evidence.is_aborted_s.all():
        return Training(predictor, None, None)
    return Training(predictor, *_score(evidence, held_out))


def _score(evidence: Evidence, held_out: HeldOut) -> tuple[pl.DataFrame, Scores]:
    table = heldout_table(evidence, held_out)
    scores = score(table, evidence, held_out)
    return table.drop("observed_one"), scores


def concerns(evidence: Evidence, training: Training) -> list[str]:
    """What the user must know before trusting the predictor."""
    found = []
    domain = evidence.domain
    if domain.num_censored == domain.num_responses:
        found.append(
            "every response was cut, so their lengths are not known: they are taken to go on past "
            "the cap; profile with a larger --max-response-tokens"
        )
    if training.held_out is None:
        found.append(
            f"nothing could be held out to test the predictor on (prompts: {domain.num_prompts}), "
            "so expect little of it; profile more prompts"
        )
    elif domain.num_prompts < ENOUGH_PROMPTS:
        found.append(
            f"trained on {domain.num_prompts} prompts, fewer than {ENOUGH_PROMPTS}: predictions "
            "are weak and their spread is widened; profile more prompts"
        )
    if training.scores and not training.scores.beats_prompt_length:
        found.append(
            "the predictor orders held-out prompts no better than the length of the prompt does: "
            "do not rely on its order; profile more prompts"
        )
    if domain.most_samples == 1:
        found.append(
            "no prompt has two samples, so chance between samples cannot be measured: the "
            "expected longest of n takes all spread for chance; profile some prompts with "
            "--rollouts-per-prompt 2 or more"
        )
    if not domain.is_cap_recorded:
        found.append(
            f"the profile records no max_response_tokens: its longest response, {domain.cap} "
            "tokens, stands for the cap; give `asp predict` --max-response-tokens"
        )
    return found


def run(source: str, output: str, config: TrainConfig, force: bool = False) -> None:
    """Read a profile, train, write the predictor directory, say how good it is."""
    check_directory(output, force, MANIFEST)
    table = read_table(source, Profile, complete_profile)
    evidence = observe(table.frame, table.name, config.profile_model, config.policy_version)
    training = train(evidence, config)
    for line in training.scores.lines() if training.scores else []:
        log.info(line)
    for concern in concerns(evidence, training):
        log.warning(concern)
    scores = training.scores.to_dict() if training.scores else None
    provenance = Provenance(
        stage="train-predictor",
        schema="predictor/1",
        config=asdict(config),
        seed=config.seed,
        results=scores or {},
        inputs=(Input("profile", table.sha256, table.provenance),),
    )
    with new_directory(output, force, MANIFEST) as folder:
        save_predictor(folder, Stored(training.predictor, evidence.domain, scores, provenance))
        if training.held_out is not None:
            its_provenance = replace(provenance, schema="heldout/1")
            write_table(training.held_out, Heldout, str(folder / HELDOUT), its_provenance, False)
