"""`asp report`: what a schedule gains on recorded true lengths, or what a run came to."""

from typing import Annotated

import typer

from asp_cli.options import Quiet, Seed
from asp_cli.refusals import refuse_shared_stdio


def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SCHEDULE|RUN",
            help="Schedule or groups table, with --lengths and --profile; or, without, a run: the "
            "directory of `asp train`, or a trace of it or of `asp simulate`. `-` is standard "
            "input.",
        ),
    ],
    lengths: Annotated[
        str | None,
        typer.Option(show_default=False, help="The lengths table that the schedule was made from."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            show_default=False, help="Profile with recorded responses of the schedule's prompts."
        ),
    ] = None,
    slots: Annotated[
        int, typer.Option(min=1, help="Responses decoded at once under continuous batching.")
    ] = 256,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Print what a schedule gains on recorded true lengths; or where the time of a run went.

    Of a schedule: utilisation of static minibatches, imbalance of the groups, and the time of a
    synchronous step under continuous batching; for random order, sorted, this schedule and a
    perfect predictor. Says "no gain" where the schedule is not better than random orders are by
    chance.

    Of a run: device time by unit and by bubble, lag and queue, and the metrics of its steps.

    Example: asp report schedule.parquet --lengths lengths.parquet --profile observed.parquet

    Example: asp report run
    """
    if lengths is None and profile is None:
        from rollout import run_report

        typer.echo(run_report.run(source))
        return
    if lengths is None or profile is None:
        missing = "--lengths" if lengths is None else "--profile"
        raise typer.BadParameter(f"{missing} is missing; a schedule is told of with both")
    from rollout.report import run

    refuse_shared_stdio(source, lengths, profile)
    typer.echo(run(source, lengths, profile, slots, seed))
