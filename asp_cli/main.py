"""The `asp` command: registers the stages in data order, and turns mistakes into one line.

Nothing heavy is imported here: `asp --help` must not wait for torch.
"""

import errno
import logging
import os
import signal
import sys
from typing import Any

import typer
from typer.exceptions import TyperException

from asp_cli import (
    balance,
    emit,
    inspect,
    partition,
    plan,
    predict,
    profile,
    refresh,
    report,
    simulate,
    train,
    train_predictor,
    verify,
)
from stages.tables.errors import AspError, Stopped, log

INTERRUPTED = 130  # typer's exit code where a KeyboardInterrupt reaches it

app = typer.Typer(
    name="asp",
    help=(
        "Adaptive Scheduling Pipeline: plan the rollouts of LLM reinforcement learning before "
        "training. Each stage reads and writes Parquet; `-` is standard input or output."
    ),
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback()
def _stages() -> None:
    """Make `asp` a group of commands however many are registered."""


app.command("profile")(profile.command)
app.command("train-predictor")(train_predictor.command)
app.command("predict")(predict.command)
app.command("partition")(partition.command)
app.command("balance")(balance.command)
app.command("emit")(emit.command)
app.command("refresh")(refresh.command)
app.command("simulate")(simulate.command)
app.command("plan")(plan.command)
app.command("train")(train.command)
app.command("verify")(verify.command)
app.command("report")(report.command)
app.command("inspect")(inspect.command)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code: 0 done, 1 a user's mistake, 2 wrong flags."""
    configure_logging()
    signal.signal(signal.SIGTERM, _stop)
    try:
        code: Any = app(arguments, prog_name="asp", standalone_mode=False)
    except TyperException as mistake:
        log.error("%s (see %s --help)", mistake.format_message(), _command_path(mistake))
        code = mistake.exit_code
    except Stopped as stopped:
        log.error(str(stopped))
        return INTERRUPTED
    except AspError as error:
        log.error(str(error))
        code = 1
    except KeyboardInterrupt:  # before typer, which turns it into the code, has begun
        code = INTERRUPTED
    except OSError as error:
        # Files are written by stages/tables/io.py, which says so itself.
        if error.errno != errno.ENOSPC:
            raise
        log.error("standard output: cannot be written: %s", error.strerror)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the flush when Python ends
        code = 1
    if code == INTERRUPTED:
        log.error("stopped; nothing was written under the output's name")
    return code if isinstance(code, int) else 0


def _command_path(mistake: TyperException) -> str:
    context = getattr(mistake, "ctx", None)
    return context.command_path if context else "asp"


def _stop(signum: int, frame: object) -> None:
    """SIGTERM unwinds like Ctrl-C, so that temporary files are removed."""
    raise KeyboardInterrupt


class _Words(logging.Formatter):
    """`error: ...`, `warning: ...`, and plain words for the rest."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        return f"asp: {prefix}{record.getMessage()}"


def configure_logging() -> None:
    """Words go to stderr; `options.Quiet` turns all but warnings and errors off."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Words())
    log.handlers = [handler]
    log.propagate = False
    log.setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
