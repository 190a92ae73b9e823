"""Plots as small SVG files, equal for equal figures."""

import re
from pathlib import Path
from typing import Any


def pyplot() -> Any:
    """matplotlib.pyplot, set up; needs the extra `bench`."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {
        "svg.hashsalt": "asp", "svg.fonttype": "none", "font.size": 8,
        "font.sans-serif": ["DejaVu Sans"],
    }  # fmt: skip
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, path: str) -> None:
    """Write the figure, with a digit after the point and no more white space than is needed."""
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    drawn = Path(path).read_text()
    drawn = re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", drawn)
    Path(path).write_text(re.sub(r"\s+", " ", re.sub(r">\s+<", "><", drawn)) + "\n")
