"""`asp simulate`: what a schedule would take on a cluster, in virtual time."""

from typing import Annotated

import typer

from asp_cli.options import Force, Quiet, RecordedProfile, Seed
from asp_cli.refusals import refuse_shared_stdio


def command(
    schedule: Annotated[
        str, typer.Argument(help="Schedule or groups table; `-` is standard input.")
    ],
    cluster: Annotated[
        str, typer.Option(help="TOML file of the cluster, such as those in sample_data/.")
    ],
    lengths: Annotated[
        str, typer.Option(help="The lengths table that the schedule was made from.")
    ],
    profile: RecordedProfile = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="Trace to write; `-` is standard output. Needed without --compare.",
        ),
    ] = None,
    chrome_trace: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", show_default=False, help="Also write the run as JSON for Perfetto."
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Print the schedule beside other ways, in both engines."),
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1000,
            metavar="K",
            show_default=False,
            help="Draws of true lengths that --compare takes. Default: 5.",
        ),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Run a schedule on a cluster in virtual time: what an iteration takes, and where time goes.

    Writes the trace of one run. With --compare prints iteration times beside those of shuffled
    prompts, hybrid, asynchronous, and asynchronous within the lag bound; of sorted prompts, a fixed
    cut, the schedule without token budgets, and a predictor that knows the true lengths. Says "no
    gain" where the 95% interval of the ratio to either asynchronous way includes 1.

    Example: asp simulate schedule.parquet --cluster c.toml --lengths l.parquet -o trace.parquet

    Example: asp simulate schedule.parquet --cluster c.toml --lengths l.parquet --compare
    """
    refuse_shared_stdio(schedule, cluster, lengths, profile or "")
    if compare and (output is not None or chrome_trace is not None):
        raise typer.BadParameter("--output and --chrome-trace are of one run; --compare has many")
    if not compare and seeds is not None:
        raise typer.BadParameter("--seeds is of use with --compare alone; give both, or --seed")
    from rollout.simulator import stage

    if compare:
        typer.echo(stage.run_comparison(schedule, lengths, profile, cluster, seeds or 5, seed))
        return
    if output is None:
        raise typer.BadParameter(
            "--output is missing; name a file for the trace, or give --compare"
        )
    if chrome_trace is not None and chrome_trace == output:
        raise typer.BadParameter("--chrome-trace and --output are the same; name two files")
    stage.run(schedule, lengths, profile, cluster, output, chrome_trace, seed, force)
