"""`asp inspect`: what table a file is, what is in it, and where it came from."""

from typing import Annotated

import typer

from asp_cli.options import Quiet


def command(
    file: Annotated[str, typer.Argument(help="Any table of the toolchain; `-` is standard input.")],
    quiet: Quiet = False,
) -> None:
    """Print which table a file is, its summary, its chain of inputs, and whether it validates.

    Exit code 1 where it does not validate.

    Example: asp inspect schedule.parquet
    """
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
    text, is_valid = inspect(file, completes)
    typer.echo(text)
    if not is_valid:
        raise typer.Exit(1)
