"""`asp report`: what a schedule gains on recorded true lengths."""

from typing import Annotated

import typer

from asp_cli.options import Quiet, Seed, refuse_shared_stdio


def command(
    schedule: Annotated[
        str, typer.Argument(help="Schedule or groups table; `-` is standard input.")
    ],
    lengths: Annotated[
        str, typer.Option(help="The lengths table that the schedule was made from.")
    ],
    profile: Annotated[str, typer.Option(help="Profile with recorded responses of its prompts.")],
    slots: Annotated[
        int, typer.Option(min=1, help="Responses decoded at once under continuous batching.")
    ] = 256,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Print what a schedule gains on recorded true lengths, beside other orders.

    Utilisation of static minibatches, imbalance of the groups, and the time of a synchronous step
    under continuous batching; for random order, sorted, this schedule and a perfect predictor.
    Says "no gain" where the schedule is not better than random orders are by chance.

    Example: asp report schedule.parquet --lengths lengths.parquet --profile observed.parquet
    """
    from rollout.report import run

    refuse_shared_stdio(schedule, lengths, profile)
    typer.echo(run(schedule, lengths, profile, slots, seed))
