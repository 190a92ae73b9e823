"""`asp verify`: did the trainer follow the schedule?"""

from typing import Annotated

import typer

from asp_cli.options import Force, Quiet
from asp_cli.refusals import refuse_shared_stdio
from stages.profile.logs import Format


def command(
    schedule: Annotated[
        str,
        typer.Argument(help="Directory that `asp emit --for` wrote, or a schedule table."),
    ],
    rollouts: Annotated[
        str,
        typer.Option(
            help="The trainer's log of rollouts: a file, or a directory of them; with --from asp "
            "the RUN_DIR of asp train."
        ),
    ],
    format: Annotated[
        Format, typer.Option("--from", help="Whose log it is.")
    ] = "auto",
    prompts: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="The prompt file that was scheduled. Default: the rows in the directory.",
        ),
    ] = None,
    prompt_column: Annotated[
        str | None,
        typer.Option(show_default=False, help="Column with the prompt. Default: as emit was told."),
    ] = None,
    rollouts_id_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default=False,
            help="Column with an id of the prompt that log and prompts have. Default: joined by "
            "the prompt's text.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_NAME", show_default=False,
            help="Tokenizer of the training, to count responses that are logged as text, and to "
            "know prompts that are logged in its chat template.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", show_default=False,
            help="Table to write, a row a logged step; `-` is standard output.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Tell from a trainer's own log whether it followed a schedule, and what deviations cost.

    Steps against planned batches, prompts missing or repeated, predicted against logged lengths,
    utilisation as predicted, as planned and as trained. Exit 1 where it was not followed.

    Example: asp verify for_trl/ --rollouts out/completions --from trl --tokenizer MODEL
    """
    refuse_shared_stdio(schedule, rollouts, prompts or "")
    from rollout.verify.stage import VerifyConfig, run

    config = VerifyConfig(format, prompts, prompt_column, rollouts_id_column, tokenizer)
    text, is_followed = run(schedule, rollouts, output, config, force)
    typer.echo(text, err=output == "-")
    if not is_followed:
        raise typer.Exit(1)
