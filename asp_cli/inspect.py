"""`asp inspect`: what a file or a predictor is, what is in it, and where it came from."""

from pathlib import Path
from typing import Annotated

import typer

from asp_cli.options import Quiet


def command(
    file: Annotated[
        str,
        typer.Argument(
            help="Any table of the toolchain, or a predictor directory; `-` is standard input."
        ),
    ],
    quiet: Quiet = False,
) -> None:
    """Print which table a file is, its summary, its chain of inputs, and whether it validates.

    Of a predictor, what it learned from and its held-out scores.

    Exit code 1 where it does not validate.

    Example: asp inspect schedule.parquet
    """
    text, is_valid = _describe(file)
    typer.echo(text)
    if not is_valid:
        raise typer.Exit(1)


def _describe(file: str) -> tuple[str, bool]:
    if Path(file).is_dir():
        from stages.predictor.evaluation.describe import describe

        return describe(file)
    from stages.lengths import table as lengths_table
    from stages.tables import derived
    from stages.tables.inspect import inspect
    from stages.tables.io import Complete

    completes: dict[str, Complete] = {
        "profile": derived.complete_profile,
        "lengths": lengths_table.complete,
        "minibatches": derived.complete_minibatches,
        "groups": derived.complete_groups,
        "schedule": derived.complete_groups,
    }
    return inspect(file, completes)
