"""What every test may use: the command line as a function, and small tables."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, settings

from asp_cli.main import main

settings.register_profile(
    "asp", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("asp")


@dataclass(frozen=True)
class Outcome:
    """What a command left behind: exit code, standard output, words."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def only_line(self) -> str:
        """The one line of a refused command; fails on a traceback or more lines."""
        (line,) = self.stderr.strip().splitlines()
        return line


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Several torch processes on few cores slow each other down."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def sample_data() -> Path:
    """The real prompts and rollouts that ship with the project."""
    return Path(__file__).parent.parent / "sample_data"


@pytest.fixture
def asp(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Outcome]:
    """`asp("partition", path, "-o", out)` in this process."""

    def run(*arguments: object) -> Outcome:
        capfdbinary.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return Outcome(code, out, err.decode())

    return run


@pytest.fixture
def asp_process() -> Callable[..., Outcome]:
    """The same in a process of its own, with standard input."""

    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        command = [sys.executable, "-m", "asp_cli.main", *map(str, arguments)]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr.decode())

    return run


@pytest.fixture
def make_lengths() -> Callable[..., pl.DataFrame]:
    """A lengths table of the required columns alone, as a user would write it."""

    def make(num_prompts: int, seed: int = 0, sigma: float = 0.5, cap: int = 2048) -> pl.DataFrame:
        rng = np.random.default_rng(seed)
        return pl.DataFrame(
            {
                "prompt_id": np.arange(num_prompts),
                "mu": rng.normal(5.0, 1.0, num_prompts),
                "sigma": np.full(num_prompts, sigma),
                "cap": np.full(num_prompts, cap),
            }
        )

    return make
