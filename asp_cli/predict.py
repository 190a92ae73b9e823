"""`asp predict`: predict the response lengths of prompts."""

from typing import Annotated

import typer

from asp_cli.options import (
    Force,
    Output,
    PromptColumn,
    Quiet,
    SamplesPerPrompt,
    refuse_stdio_directory,
    within_64_bits,
)


def command(
    prompts: Annotated[
        str, typer.Argument(help="Prompts, Parquet or JSONL; `-` is standard input.")
    ],
    predictor: Annotated[
        str,
        typer.Option(help="Directory made by `asp train-predictor`.", show_default=False),
    ],
    output: Output,
    samples_per_prompt: SamplesPerPrompt = None,
    max_response_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, callback=within_64_bits, show_default=False, metavar="N",
            help="Longest response in training, in tokens. Default: the profile's largest cap.",
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0, show_default=False,
            help="Sampling temperature in training, to be warned where the profile's differs.",
        ),
    ] = None,
    prompt_column: PromptColumn = "prompt",
    force: Force = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Predict how long the responses to each prompt will be.

    Example: asp predict prompts.parquet --predictor predictor/ -o lengths.parquet
    """
    refuse_stdio_directory(predictor, "--predictor")
    from stages.predictor.predict import PredictConfig, run

    config = PredictConfig(samples_per_prompt or 1, max_response_tokens, temperature)
    run(prompts, predictor, output, config, prompt_column, force)
