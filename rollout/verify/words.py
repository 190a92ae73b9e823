"""A verification told to a person: the verdict, what deviates, and what it cost."""

from rollout.verify.difference import Difference
from rollout.verify.order import Followed, Verdict
from rollout.verify.planned import Planned
from stages.tables.schemas import IS_AS_PLANNED

_VERDICTS = {
    Verdict.FOLLOWED: "followed: each logged step trained on the planned prompts",
    Verdict.CARRIED: "followed: each prompt is trained on in its planned step, or later where a "
    "token budget cut it",
    Verdict.INCOMPLETE: "not followed: prompts or responses are lacking in planned steps",
    Verdict.SHIFTED: "not followed: the prompts come in the planned order, but the steps are cut "
    "elsewhere",
    Verdict.DISPLACED: "not followed: the prompts come near their planned steps, as where batches "
    "form in the order of completion",
    Verdict.RESHUFFLED: "not followed: the trainer has reshuffled the prompts",
}


def tell(
    planned: Planned, num_responses: int, followed: Followed, difference: Difference | None
) -> str:
    """The whole report."""
    lines = [_VERDICTS[followed.verdict], *_order(planned, num_responses, followed)]
    if not followed.is_followed and planned.settings:
        kept = ", ".join(f"{key}={value}" for key, value in planned.settings.items())
        lines.append(f"the settings that {planned.trainer} needs: {kept}")
    if difference is None:
        lines.append(
            "lengths: nothing to compare; the log holds text alone (give --tokenizer), or of no "
            "planned minibatch every prompt was trained on"
        )
    else:
        lines += _lengths(difference)
    return "\n".join(lines)


def _order(planned: Planned, num_responses: int, followed: Followed) -> list[str]:
    steps = followed.steps
    first, last = steps["step"].min(), steps["step"].max()
    lines = [
        f"{num_responses} responses of {len(steps)} steps ({first} to {last}); "
        f"{followed.num_followed} of these {len(steps)} are as planned; {planned.num_batches} are "
        "planned" + (f", gone through {followed.num_passes} times" * (followed.num_passes > 1))
    ]
    odd = steps.filter(~IS_AS_PLANNED)
    if len(odd):
        at = odd.row(0, named=True)
        lines.append(
            f"first at step {at['step']}: of {at['num_planned']} planned prompts "
            f"{at['num_kept']} are there, and {at['num_other']} others; "
            f"{at['num_lacking']} responses too few, {at['num_extra']} too many"
        )
    if followed.num_missing:
        hashes = planned.prompts.frame["prompt_hash"]
        where = hashes.index_of(followed.first_missing)
        lines.append(
            f"{followed.num_missing} prompts of these steps are trained on nowhere in the log, "
            f"first row {where} (from 0) of {planned.prompts.name}"
        )
    if followed.num_repeated:
        lines.append(f"{followed.num_repeated} prompts are trained on more often than planned")
    if followed.verdict in (Verdict.CARRIED, Verdict.DISPLACED, Verdict.RESHUFFLED):
        lines.append(
            f"prompts lie {followed.mean_displacement or 0:.1f} steps from the plan in the mean "
            f"(largest {followed.largest_displacement or 0}); in random order it would be "
            f"{followed.random_displacement:.1f}"
        )
    return lines


def _lengths(difference: Difference) -> list[str]:
    said, planned, trained = difference.predicted, difference.planned, difference.trained
    order = "" if difference.tau is None else f"; of minibatches, tau {difference.tau:.2f}"
    return [
        f"lengths: {difference.tokens_ratio:.2f}x the predicted tokens{order}",
        f"{'':36}{'predicted':>12}{'planned':>12}{'trained':>12}",
        f"{'utilisation of static minibatches':36}{said.utilization:>12.3f}"
        f"{planned.utilization:>12.3f}{trained.utilization:>12.3f}",
        f"{'largest step above the mean':36}{said.excess:>12.1%}{planned.excess:>12.1%}"
        f"{trained.excess:>12.1%}",
        "Predicted: by the schedule's lengths. Planned: its minibatches on logged lengths; that "
        "difference is the\npredictions'. Trained: the steps as they were; the difference to "
        "planned is the order's.",
    ]
