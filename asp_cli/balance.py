"""`asp balance`: deal minibatches into groups of equal predicted load, in dispatch order."""

from typing import Annotated, Literal

import typer

from asp_cli.options import Force, Output, Quiet, Seed


def command(
    minibatches: Annotated[str, typer.Argument(help="Minibatches table; `-` is standard input.")],
    output: Output,
    group_size: Annotated[
        int | None,
        typer.Option(min=1, show_default=False, help="Minibatches in a batch group. Default: 8."),
    ] = None,
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
        Literal["seconds", "tokens"] | None,
        typer.Option(
            show_default=False,
            help="What is made equal: predicted_seconds or _tokens. Default: seconds; tokens where "
            "minibatches stop at a token budget, which all take about as long.",
        ),
    ] = None,
    policy: Annotated[
        Literal["balanced", "like", "isolate"] | None,
        typer.Option(
            show_default=False,
            help="balanced: all groups have equal loads, long and short together. like: like "
            "lengths together, the long groups spread over the epoch. isolate: the longest in a "
            "few groups, the others balanced. Default: balanced.",
        ),
    ] = None,
    method: Annotated[
        Literal["sorted", "shuffled", "snake"] | None,
        typer.Option(show_default=False, help="A naive baseline in place of a policy."),
    ] = None,
    stratify: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            show_default=False,
            help="Each group gets an even share of each value of this column (a domain, a level "
            "of difficulty), as far as loads within 1% allow.",
        ),
    ] = None,
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
        typer.Option(
            min=1,
            max=10_000,
            help="Passes over the prompts, each in another, equally good order.",
        ),
    ] = 1,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Deal minibatches into batch groups of near-equal predicted load, in dispatch order.

    The remainder makes a smaller last group. Printed are the gap to a lower bound, and how far the
    lengths of a group are from those of the whole, beside what random prompts would be.

    Example: asp balance minibatches.parquet --group-size 8 -o groups.parquet
    """
    if group_size is not None and prompts_per_group is not None:
        raise typer.BadParameter("--prompts-per-group stands in place of --group-size; give one")
    if policy is not None and method is not None:
        raise typer.BadParameter("--method stands in place of --policy; give one")
    from stages.balance.stage import BalanceConfig, run

    speeds = _speeds(instances, instance_speeds)
    config = BalanceConfig(
        group_size=group_size or BalanceConfig.group_size,
        prompts_per_group=prompts_per_group,
        load=load,
        policy=policy or BalanceConfig.policy,
        method=method,
        instance_speeds=speeds,
        epochs=epochs,
        seed=seed,
        stratify=stratify,
    )
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
    if not all(1e-6 <= speed <= 1e6 for speed in speeds):
        raise typer.BadParameter(
            f"--instance-speeds {listed}: speeds are relative, from 0.000001 to 1000000"
        )
    if instances not in (None, len(speeds)):
        raise typer.BadParameter(
            f"--instance-speeds {listed}: {len(speeds)} speeds, but --instances {instances}"
        )
    return speeds
