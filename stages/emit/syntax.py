"""How settings are written down: the syntaxes that trainers read."""

import json
import re
import shlex

from stages.emit.trainer import Settings


def hydra(values: Settings) -> str:
    """One override a line, nothing else, so that the file can stand on a command line."""
    return "".join(f"{key}={_hydra_value(value)}\n" for key, value in values.items())


def _hydra_value(value: object) -> str:
    """A value as Hydra's override grammar reads it; text with other signs in single quotes."""
    if not isinstance(value, str) or re.fullmatch(r"[\w./${}-]+", value, re.ASCII):
        return str(value)
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", value)
    return f"'{escaped}'"


def flags(values: Settings) -> str:
    """`--flag value` lines of a shell script; True is a flag alone."""
    lines = (
        f"--{key}" + ("" if value is True else f" {_word(value)}") for key, value in values.items()
    )
    return "".join(f"{line}\n" for line in lines)


def _word(value: object) -> str:
    """A word of the shell, in which ${ASP_DIR} still stands for the directory."""
    text = str(value)
    return (
        f'"{text}"'
        if re.fullmatch(r"[\w./${}-]+", text, re.ASCII) and "$" in text
        else shlex.quote(text)
    )


def json_object(values: Settings) -> str:
    """A JSON object, which is YAML too."""
    return json.dumps(values, indent=2) + "\n"


def yaml(values: Settings) -> str:
    """Nested YAML of dotted keys; a value is written as JSON, which YAML contains."""
    tree: Settings = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return "".join(_yaml_lines(tree, ""))


def _yaml_lines(node: Settings, indent: str) -> list[str]:
    lines = []
    for key, value in node.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:\n", *_yaml_lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}\n")
    return lines
