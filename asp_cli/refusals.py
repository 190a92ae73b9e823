"""Which flags cannot be given, or not together?

What refuses them exits 2, with one line, before anything is read.
"""

from collections.abc import Mapping

import typer


def refuse_shared_stdio(*paths: str) -> None:
    """Exit 2 where `-` names more than one input."""
    if sum(path == "-" for path in paths) > 1:
        raise typer.BadParameter("`-` can stand for one input only; give the others as files")


def refuse_stdio_directory(path: str, flag: str) -> None:
    """Exit 2 where `-` is given for a directory."""
    if path == "-":
        raise typer.BadParameter(f"{flag} is a directory, which `-` cannot stand for; name one")


def refuse_given(flags: Mapping[str, object], message: str) -> None:
    """Exit 2 where one of these flags was given.

    Args:
        flags: Values by flag; None: it was not given.
        message: What is wrong, and the way out; `%s` stands for the flag.
    """
    for flag, value in flags.items():
        if value is not None:
            raise typer.BadParameter(message % flag)


def refuse_useless(flags: Mapping[str, object], source: str) -> None:
    """Exit 2 where one of these flags was given, which means nothing beside `source`."""
    refuse_given(flags, f"%s is of no use with {source}; leave it out")
