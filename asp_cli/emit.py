"""`asp emit`: the canonical schedule, or a directory that a trainer follows."""

from typing import Annotated, Literal

import typer

from asp_cli.options import (
    Force,
    PromptColumn,
    Quiet,
    refuse_shared_stdio,
    refuse_stdio_directory,
)


def command(
    groups: Annotated[str, typer.Argument(help="Groups table; `-` is standard input.")],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="File to write, `-` is standard output; with --for a directory.",
        ),
    ],
    prompts: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="The prompt file that was scheduled, Parquet or JSONL; `-` is standard input.",
        ),
    ] = None,
    trainer: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="verl|trl", show_default=False, help="Trainer to hand over to."
        ),
    ] = None,
    prompt_column: PromptColumn = "prompt",
    remainder: Annotated[
        Literal["keep", "repeat", "drop"],
        typer.Option(
            help="Prompts that fill no train batch: keep them in the file, where the trainer skips "
            "them; repeat first prompts to fill the batch; or drop them."
        ),
    ] = "keep",
    train_batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="P",
            show_default=False,
            help="Prompts a training step. Default: as the groups say.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the canonical schedule; with --for and --prompts, what that trainer needs to follow it.

    The directory holds the user's own rows, all columns kept, in schedule order, the settings that
    keep the trainer from reshuffling, where minibatches and groups lie, and a README.

    Example: asp emit groups.parquet --prompts prompts.parquet --for verl -o for_verl/
    """
    if trainer is not None:
        refuse_stdio_directory(output, "--output with --for")
    if (prompts is None) != (trainer is None):
        given, missing = ("--for", "--prompts") if prompts is None else ("--prompts", "--for")
        raise typer.BadParameter(f"{given} needs {missing}: give both for a trainer, or neither")
    if trainer is None and (remainder != "keep" or train_batch_size is not None):
        raise typer.BadParameter(
            "--remainder and --train-batch-size mean something with --for only"
        )
    refuse_shared_stdio(groups, prompts or "")
    from stages.emit.stage import EmitConfig, run, run_for_trainer
    from stages.emit.trainers import TRAINERS

    if trainer is None or prompts is None:
        run(groups, output, force)
        return
    if trainer not in TRAINERS:
        raise typer.BadParameter(f"--for {trainer}: no such trainer; known: {', '.join(TRAINERS)}")
    config = EmitConfig(prompt_column, remainder, train_batch_size)
    run_for_trainer(groups, prompts, output, trainer, config, force)
