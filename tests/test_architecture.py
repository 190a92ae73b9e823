"""Imports run one way, and nothing heavy is imported before a command needs it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from asp_cli.main import app

ROOT = Path(__file__).parent.parent
BASE = {"tables", "lengths", "costs", "tokens", "workers"}
HEAVY = {"torch", "transformers", "ortools", "sklearn", "ray", "numba"}


def imported_modules(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("file", sources("stages"), ids=lambda f: str(f.relative_to(ROOT)))
def test_a_stage_imports_only_what_all_stages_share(file: Path) -> None:
    own = file.relative_to(ROOT / "stages").parts[0]
    for module in imported_modules(file):
        assert not module.startswith(("asp_cli", "rollout")), module
        if module.startswith("stages."):
            other = module.split(".")[1]
            allowed = {own} if own == "tables" else {own, "tables"}
            allowed |= BASE if own not in BASE else set()
            assert other in allowed, f"{file.name} imports {module}"


@pytest.mark.parametrize("file", sources("rollout"), ids=lambda f: f.name)
def test_rollout_does_not_import_the_command_line(file: Path) -> None:
    assert not any(module.startswith("asp_cli") for module in imported_modules(file))


def test_only_two_modules_open_our_parquet_tables() -> None:
    """Whole, or in batches. The user's own rows are copied by the emit stage, which says so."""
    openers = {"read_parquet", "scan_parquet", "write_parquet", "sink_parquet"}
    for file in sources("stages") + sources("rollout") + sources("asp_cli"):
        calls = {
            n.attr for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Attribute)
        }
        if calls & openers:
            assert file in (ROOT / "stages/tables/io.py", ROOT / "stages/tables/stream.py"), file


@pytest.mark.parametrize("command", ["", *(c.name or "" for c in app.registered_commands)])
def test_help_imports_nothing_heavy(command: str) -> None:
    code = (
        "import sys\nfrom asp_cli.main import main\n"
        f"assert main({[*command.split(), '--help']}) == 0\n"
        f"sys.exit(', '.join({HEAVY} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
