"""The documentation tells what the code does: generated pages, README lines, the tree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rollout.report import ROWS

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
RUN = re.compile(r"<!-- run -->\n```(bash|python)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("cli", "docs/cli.md"),
        ("tables", "docs/tables.md"),
        ("rollouts", "docs/rollouts.md"),
        ("readme", "README.md"),
    ],
)
def test_generated_pages_are_fresh(page: str, file: str) -> None:
    """In a process of its own, since the width of help depends on the terminal."""
    code = (
        f"import sys; sys.path.insert(0, 'docs'); import generate; print(generate.{page}(), end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == (ROOT / file).read_text(), "run `make docs`"


def test_every_command_is_in_the_readme_and_has_help() -> None:
    from asp_cli.main import app

    for command in app.registered_commands:
        assert command.callback is not None and command.callback.__doc__
        assert "Example: asp" in command.callback.__doc__, command.name
        assert f"asp {command.name}" in README, command.name


def test_readme_lines_run_as_they_stand(tmp_path: Path) -> None:
    """In order, in a copy of the folder, with this environment's `asp` on the path."""
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    scripts = Path(sys.executable).parent
    blocks = RUN.findall(README)
    assert len(blocks) >= 6
    for language, block in blocks:
        command = (
            ["bash", "-euo", "pipefail", "-c", block]
            if language == "bash"
            else [sys.executable, "-c", block]
        )
        done = subprocess.run(
            command, cwd=tmp_path, env={"PATH": f"{scripts}:/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    assert (tmp_path / "build/readme/for_trl/README.md").is_file()
    assert (tmp_path / "build/readme/my_schedule.parquet").is_file()


def test_the_demos_table_in_the_readme_is_that_of_the_report() -> None:
    """Its figures come from `make demo`; machines may differ in a digit, not in the lines."""
    table = README.split("<!-- demo -->")[1].split("```")[1].strip("\n").splitlines()
    assert table[0].split() == [
        "random",
        "sorted",
        "schedule",
        "perfect",
        "schedule",
        "/",
        "random",
    ]
    for line, row in zip(table[1:], ROWS.values(), strict=False):
        assert line.startswith(row.label)
        assert len(re.findall(r"[\d.]+%?", line[36:76])) == 4


def test_the_tree_in_the_readme_is_the_tree() -> None:
    tree = README.split("## The tree")[1].split("```")[1]
    for line in tree.strip().splitlines():
        name = line.split("/")[0].strip()
        folder = ROOT / ("stages" if line.startswith("  ") else "") / name
        assert folder.is_dir(), name
    for folder in (ROOT / "stages").iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            assert f"  {folder.name}/" in tree, folder.name


def test_decisions_are_listed() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    for page in (ROOT / "docs/decisions").glob("0*.md"):
        assert page.name in index
