"""`asp refresh`: blend predicted lengths with what training observed."""

from typing import Annotated

import typer

from asp_cli.options import Force, Output, Quiet, Seed, within_64_bits
from asp_cli.refusals import refuse_shared_stdio


def command(
    lengths: Annotated[str, typer.Argument(help="Lengths table; `-` is standard input.")],
    observed: Annotated[
        list[str],
        typer.Option(
            metavar="PROFILE", show_default=False,
            help="Profile of responses that training observed, as `asp profile --rollouts` makes "
            "it; may be given several times.",
        ),
    ],
    output: Output,
    group_samples: Annotated[
        int | None,
        typer.Option(
            min=1, callback=within_64_bits, show_default=False, metavar="N",
            help="Responses to a prompt, by one policy version, that make a sample group whole; "
            "others are left out, since of a running step only the short ones are there. Default: "
            "the table's samples_per_prompt.",
        ),
    ] = None,
    version_sigma: Annotated[
        float,
        typer.Option(
            min=0, max=1,
            help="How far lengths wander in a policy version, as a deviation of their logs: "
            "the larger, the sooner old observations are forgotten.",
        ),
    ] = 0.01,
    profile_model: Annotated[
        str | None,
        typer.Option(
            help="Model whose responses count, where the profiles hold several.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Bring predicted lengths up to date with responses that training observed.

    Observed prompts get a blend of prediction and their own responses, all others the drift of
    lengths in training. Prints the drift, and whether the predictor should be fitted again.

    Example: asp refresh lengths.parquet --observed step_40.parquet -o refreshed.parquet
    """
    refuse_shared_stdio(lengths, *observed)
    from stages.predictor.refresh.stage import run
    from stages.predictor.refresh.update import RefreshConfig

    config = RefreshConfig(version_sigma, group_samples, profile_model, seed)
    run(lengths, observed, output, config, force)
