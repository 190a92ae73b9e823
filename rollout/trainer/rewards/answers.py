"""Where in a response does its answer stand?

The last one counts: reasoning may name others on its way. Each search passes over the response
once, whatever it holds.
"""

import re

_BRACE = re.compile(r"(\\boxed)?\{|\}")


def tagged(response: str) -> str | None:
    """What stands in the last `<answer>...</answer>`; None where there is none."""
    before, end, _ = response.rpartition("</answer>")
    _, start, answer = before.rpartition("<answer>")
    return answer.strip() if start and end else None


def boxed(response: str) -> str | None:
    r"""What stands in the `\boxed{...}` that closes last; None where none does.

    Inner braces are balanced. Of boxes in boxes the outermost counts, of those that are closed.
    """
    found = None
    opened: list[tuple[bool, int]] = []  # whether it is a box, where its content starts
    for brace in _BRACE.finditer(response):
        if brace.group() != "}":
            opened.append((brace.group(1) is not None, brace.end()))
        elif opened:
            is_box, start = opened.pop()
            found = (start, brace.start()) if is_box else found
    return response[slice(*found)].strip() if found else None
