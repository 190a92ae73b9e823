"""What is in this predictor directory? What it learned from, and how good it is."""

import hashlib
from pathlib import Path

from stages.predictor.directory import Summary, read_summary
from stages.predictor.evaluation import domains, report
from stages.tables.inspect import history, layout


def describe(path: str) -> tuple[str, bool]:
    """Describe a predictor directory, without loading a language model.

    Returns:
        The description, and whether its files are as they were written.

    Raises:
        AspError: It is none.
    """
    summary = read_summary(path)
    damaged = [
        name
        for name, digest in summary.files.items()
        if not (Path(path) / name).is_file()
        or hashlib.sha256((Path(path) / name).read_bytes()).hexdigest() != digest
    ]
    valid = f"no: damaged or missing: {', '.join(damaged)}" if damaged else "yes"
    found = [
        ("directory", path),
        ("predictor", _kind(summary)),
        ("trained on", _trained_on(summary)),
        *_scores(summary),
        *history(summary.provenance),
        ("valid", valid),
    ]
    return layout(found), not damaged


def _kind(summary: Summary) -> str:
    base = f", base model {summary.base_model}" if summary.base_model else ""
    return summary.backend + base


def _trained_on(summary: Summary) -> str:
    domain = summary.domain
    return (
        f"{domain.num_prompts:,} prompts, {domain.num_responses:,} responses of {domain.model} "
        f"({domain.num_censored:,} cut), cap {domain.cap:,}, policy version {domain.policy_version}"
    )


def _scores(summary: Summary) -> list[tuple[str, str]]:
    rows = ["none: nothing was held out"]
    if summary.scores:
        rows = report.lines(summary.scores, is_full=True)
    if summary.by_domain:
        rows += domains.lines(summary.by_domain)
    trusted = "yes" if summary.is_trusted else "no: predict gives all prompts one distribution"
    return [
        *(("scores" if index == 0 else "", row) for index, row in enumerate(rows)),
        ("trusted", trusted),
    ]
