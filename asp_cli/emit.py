"""`asp emit`: the canonical schedule, or a directory that a trainer follows."""

from typing import Annotated, Literal

import typer

from asp_cli.options import Force, PromptColumn, Quiet, within_64_bits
from asp_cli.refusals import refuse_shared_stdio, refuse_stdio_directory


def _list_trainers(is_asked: bool) -> None:
    """Print the table of trainers, and end."""
    if is_asked:
        from stages.emit.table import as_text
        from stages.emit.trainers import TRAINERS

        typer.echo(as_text(TRAINERS.values()), nl=False)
        raise typer.Exit


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
            "--for",
            metavar="TRAINER",
            show_default=False,
            help="Trainer to hand over to: verl, trl, slime or another of --list.",
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
    max_prompt_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            callback=within_64_bits,
            show_default=False,
            help="Leave out prompts of more tokens, counted with --tokenizer, and fill their "
            "places from the last groups. Default: none is left out.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_NAME",
            show_default=False,
            help="Tokenizer of training, for --max-prompt-tokens; with its chat template.",
        ),
    ] = None,
    list_trainers: Annotated[
        bool,
        typer.Option(
            "--list",
            is_eager=True,
            callback=_list_trainers,
            help="Print what each trainer keeps of a schedule, and what was checked.",
        ),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the canonical schedule; with --for and --prompts, what that trainer needs to follow it.

    The directory holds the user's own rows, all columns kept, in schedule order, the settings and
    the code that keep the trainer from reshuffling, where minibatches lie, and a README.

    Example: asp emit groups.parquet --prompts prompts.parquet --for verl -o for_verl/
    """
    if trainer is not None:
        refuse_stdio_directory(output, "--output with --for")
    if (prompts is None) != (trainer is None):
        given, missing = ("--for", "--prompts") if prompts is None else ("--prompts", "--for")
        raise typer.BadParameter(f"{given} needs {missing}: give both for a trainer, or neither")
    has_own = remainder != "keep" or train_batch_size is not None or max_prompt_tokens is not None
    if trainer is None and has_own:
        raise typer.BadParameter(
            "--remainder, --train-batch-size and --max-prompt-tokens mean something with --for only"
        )
    if (max_prompt_tokens is None) != (tokenizer is None):
        raise typer.BadParameter(
            "--max-prompt-tokens and --tokenizer need each other: give both or neither"
        )
    refuse_shared_stdio(groups, prompts or "")
    from stages.emit.stage import EmitConfig, run, run_for_trainer
    from stages.emit.trainers import TRAINERS

    if trainer is None or prompts is None:
        run(groups, output, force)
        return
    if trainer not in TRAINERS:
        raise typer.BadParameter(f"--for {trainer}: no such trainer; known: {', '.join(TRAINERS)}")
    config = EmitConfig(prompt_column, remainder, train_batch_size, max_prompt_tokens, tokenizer)
    run_for_trainer(groups, prompts, output, trainer, config, force)
