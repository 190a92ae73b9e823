"""`asp train-predictor`: learn response lengths from a profile."""

from typing import Annotated, Literal

import typer

from asp_cli.options import Force, OutputDirectory, Quiet, Seed
from asp_cli.refusals import refuse_stdio_directory


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
    base_model: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_NAME", show_default=False,
            help="Language model of the transformer backend: a directory, or a name of the hub. "
            "Default: Qwen/Qwen2.5-1.5B.",
        ),
    ] = None,
    max_prompt_tokens: Annotated[
        int,
        typer.Option(min=2, help="Tokens it reads of a prompt; a longer one loses its middle."),
    ] = 1024,
    max_epochs: Annotated[
        int,
        typer.Option(min=0, help="Epochs for which it is tuned at most; 0: it stays as it is."),
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
    evaluate: Annotated[
        bool,
        typer.Option("--evaluate", help="Print every held-out score, not the main ones alone."),
    ] = False,
    leave_domain_out: Annotated[
        bool,
        typer.Option(
            "--leave-domain-out",
            help="Also score each domain of the profile by a fit on the others.",
        ),
    ] = False,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Learn from a profile how long the responses to a prompt will be.

    Prints and stores scores on held-out prompts, beside those of plain rules and an estimate of the
    best that is possible.

    Example: asp train-predictor profile.parquet -o predictor/
    """
    refuse_stdio_directory(output, "--output")
    if base_model is not None and backend == "embedded":
        raise typer.BadParameter("--base-model needs --backend transformer; the embedded has none")
    if leave_domain_out and backend == "transformer":
        raise typer.BadParameter("--leave-domain-out needs --backend embedded: it fits many times")
    from stages.predictor.backend import TransformerOptions
    from stages.predictor.train import TrainConfig, run

    options = None
    if backend == "transformer":
        name = base_model or TransformerOptions.base_model
        options = TransformerOptions(name, max_prompt_tokens, max_epochs)
    config = TrainConfig(
        backend, folds, seed, profile_model, policy_version, options, leave_domain_out
    )
    run(profile, output, config, force, evaluate)
