"""Where a benchmark ran: the line under each result."""

import os
import platform
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path


def heading(title: str) -> str:
    """Title, date, machine, versions and command of a result."""
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "numba", "polars", "scikit-learn")
    )
    where = f"{os.cpu_count()} cores {platform.machine()}, Python {platform.python_version()}"
    command = " ".join(Path(argument).name for argument in sys.argv)
    return f"# {title}\n\n{date.today()}, {where}, {packages}\n\n    python {command}\n"
