"""Flags that mean the same thing in every command."""

import logging
import math
from typing import Annotated

import typer

from stages.tables.errors import log

Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", help="File to write; `-` is standard output.", show_default=False
    ),
]
OutputDirectory = Annotated[
    str, typer.Option("--output", "-o", help="Directory to write.", show_default=False)
]
LARGEST = 2**63 - 1  # what a column of whole numbers holds


def within_64_bits(value: int | None) -> int | None:
    """Exit 2 where a number of things is beyond what the tables can hold."""
    if value is not None and value > LARGEST:
        raise typer.BadParameter(f"must be at most 2^63 - 1, {LARGEST}")
    return value


def finite(value: float | None) -> float | None:
    """Exit 2 where a number is infinite."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"must be a finite number, not {value}")
    return value


def be_quiet(is_quiet: bool) -> bool:
    """Keep warnings and errors alone, from here on."""
    if is_quiet:
        log.setLevel(logging.WARNING)
    return is_quiet


Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of everything random.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", is_eager=True, callback=be_quiet,
        help="Only warnings and errors on stderr.",
    ),
]  # fmt: skip
SamplesPerPrompt = Annotated[
    int | None,
    typer.Option(
        "--samples-per-prompt", min=1, callback=within_64_bits, show_default=False, metavar="N",
        help="Responses per prompt in training, the n of GRPO. Default: as the table says, else 1.",
    ),
]  # fmt: skip
RecordedProfile = Annotated[
    str | None,
    typer.Option(
        "--profile", show_default=False,
        help="Profile with recorded responses of the prompts: true lengths are drawn among those "
        "of each prompt. Default: from the distributions of the lengths table.",
    ),
]  # fmt: skip
PromptColumn = Annotated[
    str,
    typer.Option(
        "--prompt-column", help="Column with the prompt: text or {role, content} messages."
    ),
]
DomainColumn = Annotated[
    str | None,
    typer.Option(
        "--domain-column", metavar="NAME", show_default=False,
        help="Column of the prompts with the kind of task: lengths are told from it too, and "
        "intervals calibrated for each. Default: `domain`, where there is one.",
    ),
]  # fmt: skip
