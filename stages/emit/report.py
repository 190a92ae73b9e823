"""What emit says: what was written, and what the trainer will not do as planned."""

import polars as pl

from stages.emit.overlong import OVERLONG_FILE, Overlong
from stages.emit.schedule import CanonicalSchedule
from stages.emit.trainer import Handover, Trainer
from stages.tables.errors import log
from stages.tables.schemas import IS_HEAD


def say_schedule(schedule: CanonicalSchedule) -> None:
    """The counts of a canonical schedule."""
    counts = schedule.provenance.results
    log.info(
        "%d prompts in %d minibatches, %d groups, %d %s",
        counts["num_prompts"], counts["num_minibatches"], counts["num_groups"],
        counts["num_epochs"], "epoch" if counts["num_epochs"] == 1 else "epochs",
    )  # fmt: skip


def say_handover(trainer: Trainer, handover: Handover, schedule: CanonicalSchedule) -> None:
    """The counts of a hand-over, after its warnings."""
    for concern in trainer.concerns(handover):
        log.warning("%s", concern)
    if trainer.cuts_batches:
        _warn_of_unfit_groups(trainer, handover)
    _warn_of_skipped_rows(trainer, handover)
    _warn_of_unknown_plans(trainer, schedule.frame)
    if trainer.filters:
        log.warning(
            "%s shifts every later batch where it drops prompts after generation (%s): keep that "
            "off", trainer.title, trainer.filters,
        )  # fmt: skip
    if handover.overlong is not None:
        _say_overlong(handover.overlong)
    log.info(
        "%d rows for %s: %d train batches of %d prompts, %d samples a prompt; "
        "--remainder %s touches %d prompts",
        handover.num_rows, trainer.title, handover.num_train_batches, handover.batch.size,
        handover.samples_per_prompt, handover.treated.rule, handover.treated.num_touched,
    )  # fmt: skip


def _warn_of_unfit_groups(trainer: Trainer, handover: Handover) -> None:
    batch = handover.batch
    if not handover.num_straddling_groups and not batch.is_nominal:
        return
    log.warning(
        "%s cuts fixed train batches, here of %d prompts (from: %s), and %d of %d groups straddle "
        "them: its steps are not the groups that were balanced; "
        "`asp balance --prompts-per-group %d` makes every group one train batch",
        trainer.title, batch.size, batch.source, handover.num_straddling_groups,
        handover.num_groups, batch.size,
    )  # fmt: skip


def _warn_of_skipped_rows(trainer: Trainer, handover: Handover) -> None:
    treated = handover.treated
    if treated.rule != "keep" or not treated.num_touched or not trainer.skips_remainder:
        return
    log.warning(
        "%s drops a partial last batch: it skips the last %d of %d rows in each pass over the "
        "file%s%s; --remainder repeat or drop decides otherwise",
        trainer.title, treated.num_touched, handover.num_rows,
        "" if handover.num_train_batches else ", which is all of them, so it makes no step",
        "" if handover.num_epochs == 1 else ", and epochs after the first may start inside a batch",
    )  # fmt: skip


def _warn_of_unknown_plans(trainer: Trainer, schedule: pl.DataFrame) -> None:
    num_budgets = schedule["token_budget"].count()
    if num_budgets or len(schedule.filter(~IS_HEAD)):
        log.warning(
            "%s knows no token budgets: %d minibatches have one, but their responses will run to "
            "its own limit%s, and tail minibatches are left out",
            trainer.title, num_budgets,
            ", or be carried on where it interrupts them (its settings for that are written)"
            if trainer.follows.partial_rollouts == "settings"
            else "",
        )  # fmt: skip
    if schedule["instance"].count() and trainer.follows.instances == "no":
        log.warning(
            "%s has no setting for the planned instances: it places prompts itself", trainer.title
        )


def _say_overlong(overlong: Overlong) -> None:
    log.info(
        "--max-prompt-tokens %d: %d prompts are longer and left out, see %s; %d rows of the last "
        "groups moved into their places",
        overlong.max_prompt_tokens, len(overlong.prompts), OVERLONG_FILE, overlong.num_moved,
    )  # fmt: skip
