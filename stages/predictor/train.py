"""How long will the target model's responses be, given what it answered in the profile?

In: profile. Out: a predictor directory, with held-out predictions and their scores in it
(StreamRL, arXiv 2504.15930, section 4.2, ranks by a fitted length predictor; the distribution, the
censoring and the scores are ours).

    asp train-predictor profile.parquet -o predictor/
"""

import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from stages.predictor import embedded
from stages.predictor.backend import HeldOut, TransformerOptions
from stages.predictor.directory import HELDOUT, MANIFEST, Stored, save_predictor
from stages.predictor.evaluation import domains, report
from stages.predictor.evaluation.familiarity import usual_unseen_share
from stages.predictor.evaluation.labels import judge
from stages.predictor.evaluation.marginal import fit_marginal
from stages.predictor.evaluation.scores import Scores, score
from stages.predictor.observations import Evidence, observe
from stages.predictor.processes import is_first_process
from stages.predictor.spread import ENOUGH_PROMPTS
from stages.tables.derived import complete_profile
from stages.tables.errors import AspError, log
from stages.tables.io import check_directory, new_directory, read_table, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Heldout, Profile

if TYPE_CHECKING:  # needs torch
    from stages.predictor.transformer.predictor import TransformerPredictor

Backend = Literal["embedded", "transformer"]


@dataclass(frozen=True)
class TrainConfig:
    """How to train."""

    backend: Backend = "embedded"
    folds: int = 5  # of the cross-validation, by prompt; at least 2
    seed: int = 0
    profile_model: str | None = None  # the model to learn; None: the only one
    policy_version: int | None = None  # the policy version to learn; None: the only one
    transformer: TransformerOptions | None = None  # of that backend
    leave_domain_out: bool = False  # score each domain by a fit on the others


@dataclass(frozen=True)
class Training:
    """A fitted predictor and how it does on prompts it has not seen."""

    predictor: "embedded.EmbeddedPredictor | TransformerPredictor"
    held_out: pl.DataFrame | None  # schema Heldout; None where nothing could be held out or scored
    scores: Scores | None  # of held_out
    usual_unseen_share: float  # of a training prompt's n-grams, not seen in the others


def train(
    evidence: Evidence, config: TrainConfig, journal: Path | None = None, force: bool = False
) -> Training:
    """Fit a predictor to one model's responses and score it on held-out prompts.

    Args:
        evidence: The responses.
        config: How.
        journal: Folder in which the transformer backend keeps what a killed run had finished.
        force: Start over where the journal is of other settings.

    Raises:
        AspError: The base model cannot be used, or the journal is of another run.
    """
    predictor: embedded.EmbeddedPredictor | TransformerPredictor
    if config.backend == "embedded":
        predictor, held_out = embedded.fit(evidence.observations, config.folds, config.seed)
    else:
        # Imported here: torch takes seconds to load.
        from stages.predictor.transformer import backend
        from stages.predictor.transformer.journal import Journal

        predictor, held_out = backend.fit(
            evidence.observations, config.folds, config.seed,
            config.transformer or TransformerOptions(), Journal(journal), force,
        )  # fmt: skip
    return _evaluated(evidence, predictor, held_out, config.seed)


def _evaluated(
    evidence: Evidence,
    predictor: "embedded.EmbeddedPredictor | TransformerPredictor",
    held_out: HeldOut | None,
    seed: int,
) -> Training:
    """With its scores, where something was held out."""
    own = predictor if isinstance(predictor, embedded.EmbeddedPredictor) else predictor.embedded
    texts = evidence.observations.texts
    count_pg = own.vocabularies.words.count(texts)
    usual = usual_unseen_share(texts, count_pg)
    if held_out is None or evidence.is_aborted_s.all():
        return Training(predictor, None, None, usual)
    judged = judge(evidence, held_out)
    scores = score(judged, own.vocabularies.words.count(judged.observations.texts), seed)
    return Training(predictor, judged.table, scores, usual)


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
            "the predictor orders held-out prompts no better than the length of the prompt does "
            f"({_lead(training.scores)}): do not rely on its order; profile more prompts"
        )
    if not is_trusted(evidence, training):
        found.append(
            "`asp predict` will give all prompts the one distribution of the profile's responses, "
            "unless told --trust-predictor"
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


def _lead(scores: Scores) -> str:
    if scores.lead is None:
        return "neither orders them"
    low, high = scores.lead
    return f"Kendall tau better by {low:+.3f} to {high:+.3f}, 90% interval"


def is_trusted(evidence: Evidence, training: Training) -> bool:
    """Whether the predictor has shown that it knows more than the profile's one distribution."""
    is_enough = evidence.domain.num_prompts >= ENOUGH_PROMPTS
    return is_enough and training.scores is not None and training.scores.beats_prompt_length


def _domain_scores(evidence: Evidence, config: TrainConfig, name: str) -> list[domains.DomainScore]:
    found = set(evidence.observations.domains or ())
    if len(found) < 2:
        raise AspError(
            f"{name}: column 'domain' names {len(found)} kinds of task, and --leave-domain-out "
            "needs two or more; profile with --domain-column"
        )
    return domains.leave_domains_out(
        evidence, lambda rest: embedded.fit(rest, config.folds, config.seed)[0], config.seed
    )


def run(
    source: str, output: str, config: TrainConfig, force: bool = False, is_full: bool = False
) -> None:
    """Read a profile, train, write the predictor directory, say how good it is.

    Args:
        source: The profile.
        output: The directory.
        config: How to train.
        force: Replace an existing directory.
        is_full: Print every score in place of the main ones.

    Raises:
        AspError: The profile cannot be used, or the output cannot be written.
    """
    check_directory(output, force, MANIFEST)
    table = read_table(source, Profile, complete_profile)
    evidence = observe(table.frame, table.name, config.profile_model, config.policy_version)
    by_domain = _domain_scores(evidence, config, table.name) if config.leave_domain_out else None
    journal = Path(f"{output.rstrip('/')}.journal")
    training = train(evidence, config, journal, force)
    if not is_first_process():
        return
    if training.scores:
        for line in report.lines(training.scores, is_full):
            log.info(line)
    for line in domains.lines(by_domain) if by_domain else []:
        log.info(line)
    for concern in concerns(evidence, training):
        log.warning(concern)
    provenance = Provenance(
        stage="train-predictor",
        schema="predictor/1",
        config=_public(config),
        seed=config.seed,
        results=training.scores.summary() if training.scores else {},
        inputs=(Input("profile", table.sha256, table.provenance),),
    )
    stored = Stored(
        training.predictor,
        evidence.domain,
        training.scores,
        by_domain,
        training.usual_unseen_share,
        None if is_trusted(evidence, training) else fit_marginal(evidence.observations),
        provenance,
    )
    with new_directory(output, force, MANIFEST) as folder:
        save_predictor(folder, stored)
        if training.held_out is not None:
            its_provenance = replace(provenance, schema="heldout/1")
            write_table(training.held_out, Heldout, str(folder / HELDOUT), its_provenance, False)
    shutil.rmtree(journal, ignore_errors=True)


def _public(config: TrainConfig) -> dict[str, Any]:
    """The configuration without where the base model lies: a path's last part, a hub's name."""
    public = asdict(config)
    if config.transformer and Path(config.transformer.base_model).is_dir():
        public["transformer"]["base_model"] = Path(config.transformer.base_model).resolve().name
    return public
