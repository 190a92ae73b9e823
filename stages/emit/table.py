"""What each trainer keeps of a schedule, as one table: for `asp emit --list` and the README."""

from collections.abc import Iterable

from stages.emit.trainer import Trainer

HEAD = (
    "--for", "order kept by", "batch boundaries", "step size", "instances", "partial rollouts",
    "proof", "checked",
)  # fmt: skip


def rows(trainers: Iterable[Trainer]) -> list[tuple[str, ...]]:
    """A line a trainer, in the order of HEAD."""
    return [
        (
            trainer.name,
            trainer.follows.order,
            trainer.follows.batches,
            trainer.follows.sizes,
            trainer.follows.instances,
            trainer.follows.partial_rollouts,
            trainer.follows.proof,
            trainer.follows.checked,
        )
        for trainer in trainers
    ]


def as_text(trainers: Iterable[Trainer]) -> str:
    """Columns padded with spaces."""
    lines = [HEAD, *rows(trainers)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return "\n".join(padded) + "\n"


def as_markdown(trainers: Iterable[Trainer]) -> str:
    """A table of Markdown."""
    lines = [HEAD, ("---",) * len(HEAD), *((f"`{row[0]}`", *row[1:]) for row in rows(trainers))]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
