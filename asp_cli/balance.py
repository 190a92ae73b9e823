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
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Deal minibatches into batch groups of near-equal predicted load, in dispatch order.

    The remainder makes a smaller last group. The gap to a lower bound is printed.

    Example: asp balance minibatches.parquet --group-size 8 -o groups.parquet
    """
    from stages.balance.stage import BalanceConfig, run

    config = BalanceConfig(group_size, prompts_per_group, load, method, seed)
    run(minibatches, output, config, force)
