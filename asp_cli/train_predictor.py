"""`asp train-predictor`: learn response lengths from a profile."""

from typing import Annotated, Literal

import typer

from asp_cli.options import Force, OutputDirectory, Quiet, Seed, refuse_stdio_directory


def command(
    profile: Annotated[str, typer.Argument(help="Profile table; `-` is standard input.")],
    output: OutputDirectory,
    backend: Annotated[
        Literal["embedded", "transformer"],
        typer.Option(help="embedded: text features on a CPU; transformer: a language model."),
    ] = "embedded",
    folds: Annotated[
        int, typer.Option(min=2, max=100, help="Folds of the cross-validation by prompt.")
    ] = 5,
    profile_model: Annotated[
        str | None,
        typer.Option(help="Model to learn, where the profile holds several.", show_default=False),
    ] = None,
    policy_version: Annotated[
        int | None,
        typer.Option(
            min=0, help="Policy version to learn, where it holds several.", show_default=False
        ),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Learn from a profile how long the responses to a prompt will be.

    Prints and stores scores on held-out prompts, beside those of the prompt's length.

    Example: asp train-predictor profile.parquet -o predictor/
    """
    refuse_stdio_directory(output, "--output")
    from stages.predictor.train import TrainConfig, run

    config = TrainConfig(backend, folds, seed, profile_model, policy_version)
    run(profile, output, config, force)
