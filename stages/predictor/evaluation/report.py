"""The scores as a table to read.

A block a label; in it a line a measure: plain rules, the predictor with its interval, the ceiling,
and how much of the ceiling is reached.
"""

from stages.predictor.evaluation.baselines import BASELINES, NEIGHBOURS
from stages.predictor.evaluation.labels import LABELS
from stages.predictor.evaluation.measures import Measures
from stages.predictor.evaluation.scores import Scores

WORDS = {
    "tau": "Kendall tau-b",
    "spearman": "Spearman",
    "recall_10": "recall, longest 10%",
    "recall_20": "recall, longest 20%",
    "concordance": "concordance",
    "log_r2": "log R2",
    "mae": "MAE, tokens",
}
HEADS = {
    "constant": "constant",
    "prompt_length": "prompt",
    "domain_mean": "domain",
    "neighbours": "near",
}
RULES = {
    "constant": "one length for all",
    "prompt_length": "order by length of the prompt",
    "domain_mean": "mean of its domain",
    "neighbours": f"mean of the {NEIGHBOURS} most similar prompts",
}
WIDTHS = (11, 16, 9, 7)  # of predictor, interval, ceiling, share
BRIEF = ("tau", "recall_20")
CHANCE = {"concordance": 0.5}  # what an order by lot scores, where that is not 0
PROFILE_FOR_CEILING = "64 prompts with 8 responses each (--num-prompts 64 --rollouts-per-prompt 8)"


def lines(scores: Scores, is_full: bool) -> list[str]:
    """The table; brief: two measures, and of the rules the length of the prompt alone."""
    rules = [name for name in BASELINES if name in scores.baselines]
    if not is_full:
        rules = ["prompt_length"]
    heads = [*(HEADS[name] for name in rules), "predictor", "90% interval", "ceiling", "share"]
    samples = scores.num_responses / scores.num_prompts
    rows = [
        f"held out: {scores.num_prompts:,} prompts, {samples:.1f} responses each on average",
        f"{'':22}" + _row(heads),
    ]
    for label, its_words in LABELS.items():
        rows.append(f"against {'the ' if label != 'one' else ''}{its_words}")
        for name in WORDS if is_full else BRIEF:
            rows.append(_line(scores, label, name, rules))
    meanings = [f"  {HEADS[name]}: {RULES[name]}" for name in rules]
    return [*rows, "of these columns", *meanings, *_remarks(scores)]


def _row(cells: list[str]) -> str:
    widths = [10] * (len(cells) - len(WIDTHS)) + list(WIDTHS)
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _line(scores: Scores, label: str, name: str, rules: list[str]) -> str:
    def of(measures: Measures) -> float | None:
        value: float | None = getattr(measures, name)
        return value

    own = of(scores.predictor[label])
    best = of(scores.ceilings.by_label[label]) if scores.ceilings else None
    cells = [_number(of(scores.baselines[rule][label]), name) for rule in rules]
    cells += [_number(own, name), _interval(scores, label, name), _number(best, name)]
    cells.append(_share(own, best, name))
    return f"  {WORDS[name]:20}" + _row(cells)


def _number(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if name == "mae" else f"{value:.3f}"


def _interval(scores: Scores, label: str, name: str) -> str:
    interval = scores.intervals[label].get(name)
    return f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else ""


def _share(own: float | None, best: float | None, name: str) -> str:
    """How much of the way from chance to the ceiling; an error has no such share."""
    chance = CHANCE.get(name, 0.0)
    if own is None or best is None or name == "mae" or best <= chance:
        return ""
    return f"{(own - chance) / (best - chance):.0%}"


def _remarks(scores: Scores) -> list[str]:
    found = [
        f"its 80% interval covers {scores.coverage_80:.1%} of responses, its 90% interval "
        f"{scores.coverage_90:.1%}",
        f"expected against observed: mean {scores.mean_bias:+.1%}, longest "
        f"{scores.longest_bias:+.1%}",
    ]
    ceilings = scores.ceilings
    if ceilings is None:
        return [
            *found,
            "ceiling: not measurable, since too few prompts have two responses or more; profile",
            f"  {PROFILE_FOR_CEILING}",
        ]
    below, above = (
        "normal" if nu is None else f"t with {nu:g} degrees of freedom"
        for nu in (ceilings.nu_below, ceilings.nu_above)
    )
    return [
        *found,
        f"ceiling: estimated from {ceilings.num_repeated:,} prompts with two responses or more;",
        f"  deviation of log length {ceilings.between:.2f} between prompts, {ceilings.within:.2f} "
        f"within ({below if below == above else f'{below} below, {above} above'});",
        "  tau between two samples of one prompt: "
        f"{_number(ceilings.observed_agreement, 'tau')} observed, "
        f"{_number(ceilings.modelled_agreement, 'tau')} by that estimate",
    ]
