"""`asp partition`: cut prompts into minibatches of like length."""

from typing import Annotated, Literal

import typer

from asp_cli.options import Force, Output, Quiet, SamplesPerPrompt, Seed, within_64_bits


def command(
    lengths: Annotated[str, typer.Argument(help="Lengths table; `-` is standard input.")],
    output: Output,
    batch_size: Annotated[
        int,
        typer.Option(min=1, callback=within_64_bits, help="Base size of a minibatch, in prompts."),
    ] = 32,
    slack: Annotated[
        float, typer.Option(min=0, max=1, help="Sizes float within batch size x (1 +- slack).")
    ] = 0.25,
    samples_per_prompt: SamplesPerPrompt = None,
    objective: Annotated[
        Literal["expected-padding", "utilization", "padding", "seconds"],
        typer.Option(
            help="What the cut makes best: slots held for the expected longest of all samples of a "
            "minibatch; mean utilisation or padding with lengths taken as certain; predicted "
            "seconds. All but seconds hold the number of minibatches."
        ),
    ] = "expected-padding",
    by: Annotated[
        Literal["upper", "longest", "expected"] | None,
        typer.Option(
            show_default=False,
            help="Sort by a response's 98th percentile, the expected longest of n, or its expected "
            "length. Default: upper for expected-padding, else expected.",
        ),
    ] = None,
    method: Annotated[
        Literal["exact", "fixed", "random"],
        typer.Option(help="exact, or a baseline: sorted with fixed sizes, or random."),
    ] = "exact",
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Cut prompts, sorted by predicted length, into minibatches of like length.

    The dynamic programme is exact; what it could not prove optimal is printed as a gap.

    Example: asp partition lengths.parquet --batch-size 32 -o minibatches.parquet
    """
    from stages.partition.stage import PartitionConfig, run

    config = PartitionConfig(batch_size, slack, samples_per_prompt, objective, by, method, seed)
    run(lengths, output, config, force)
