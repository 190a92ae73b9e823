"""`asp predict`: predict the response lengths of prompts."""

from typing import Annotated

import typer

from asp_cli.options import (
    DomainColumn,
    Force,
    Output,
    PromptColumn,
    Quiet,
    SamplesPerPrompt,
    finite,
    within_64_bits,
)
from asp_cli.refusals import refuse_stdio_directory


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
            min=0, callback=finite, show_default=False,
            help="Sampling temperature in training, to be warned where the profile's differs.",
        ),
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(
            show_default=False, metavar="DIR_OR_NAME",
            help="Where the base model of a transformer predictor lies. Default: as in training.",
        ),
    ] = None,
    trust_predictor: Annotated[
        bool,
        typer.Option(
            "--trust-predictor",
            help="Use a predictor that did not beat the length of the prompt, or that learned from "
            "few prompts. Without it all prompts then get one wide distribution.",
        ),
    ] = False,
    keep_column: Annotated[
        list[str] | None,
        typer.Option(
            show_default=False, metavar="NAME",
            help="Column of the prompts to hand on to lengths, for `balance --stratify`; may be "
            "given several times.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_NAME", show_default=False,
            help="Counts prompt_tokens, with its chat template if any, where the prompts have no "
            "column prompt_tokens. `partition --kv-tokens` needs them.",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", show_default=False,
            help="Predict on a Ray cluster, with the same result: its address, or `local` to start "
            "one here. Needs asp-schedule on all nodes, and files that all of them see.",
        ),
    ] = None,
    prompt_column: PromptColumn = "prompt",
    domain_column: DomainColumn = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Predict how long the responses to each prompt will be.

    Example: asp predict prompts.parquet --predictor predictor/ -o lengths.parquet
    """
    refuse_stdio_directory(predictor, "--predictor")
    if ray is not None and prompts == "-":
        raise typer.BadParameter("--ray needs PROMPTS as a file that all nodes see, not `-`")
    from stages.predictor.predict import PredictConfig, run
    from stages.tables.prompt_survey import PromptColumns

    config = PredictConfig(
        samples_per_prompt or 1, max_response_tokens, temperature, trust_predictor, tokenizer
    )
    columns = PromptColumns(
        prompt_column, domain_column, has_tokens=True, kept=tuple(dict.fromkeys(keep_column or ()))
    )
    run(prompts, predictor, output, config, columns, force, base_model, ray)
