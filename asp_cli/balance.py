"""`asp balance`: deal minibatches into groups of equal predicted load, in dispatch order."""

from typing import Annotated, Literal

import typer

from asp_cli.options import Force, Output, Quiet, Seed


def command(
    minibatches: Annotated[str, typer.Argument(help="Minibatches table; `-` is standard input.")],
    output: Output,
    group_size: Annotated[int, typer.Option(min=1, help="Minibatches in a batch group.")] = 8,
    prompts_per_group: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default=False,
            help="Prompts in a group, exactly, in place of --group-size: for trainers that cut "
            "fixed train batches (verl, TRL).",
        ),
    ] = None,
    load: Annotated[
        Literal["seconds", "tokens"],
        typer.Option(help="What is made equal: predicted_seconds or _tokens."),
    ] = "seconds",
    method: Annotated[
        Literal["balanced", "sorted", "shuffled", "snake"],
        typer.Option(help="balanced, or a baseline."),
    ] = "balanced",
    instances: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=4096,
            show_default=False,
            help="Place each group on so many instances, which then finish together.",
        ),
    ] = None,
    instance_speeds: Annotated[
        str | None,
        typer.Option(
            metavar="S,S,...",
            show_default=False,
            help="Relative speed of each instance. Default: all alike.",
        ),
    ] = None,
    epochs: Annotated[
        int,
        typer.Option(min=1, help="Passes over the prompts, each in another, equally good order."),
    ] = 1,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Deal minibatches into batch groups of near-equal predicted load, in dispatch order.

    The remainder makes a smaller last group. The gap to a lower bound is printed.

    Example: asp balance minibatches.parquet --group-size 8 -o groups.parquet
    """
    from stages.balance.stage import BalanceConfig, run

    speeds = _speeds(instances, instance_speeds)
    config = BalanceConfig(group_size, prompts_per_group, load, method, speeds, epochs, seed)
    run(minibatches, output, config, force)


def _speeds(instances: int | None, listed: str | None) -> tuple[float, ...]:
    """Speeds as given, or 1 for each instance; none where no instances are planned for."""
    if listed is None:
        return (1.0,) * (instances or 0)
    try:
        speeds = tuple(float(speed) for speed in listed.split(","))
    except ValueError:
        what = f"--instance-speeds {listed}: not numbers with commas between"
        raise typer.BadParameter(what) from None
    if not all(0 < speed < float("inf") for speed in speeds):
        raise typer.BadParameter(f"--instance-speeds {listed}: speeds must be above 0")
    if instances not in (None, len(speeds)):
        raise typer.BadParameter(
            f"--instance-speeds {listed}: {len(speeds)} speeds, but --instances {instances}"
        )
    return speeds
