"""A small cluster on paper, a schedule with budgets for it, and one Ray for all tests."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rollout.trainer.config import ControlConfig, CutConfig, RunConfig, TimedConfig
from tests.rollout.conftest import schedule_of

CLUSTER = """
[generation]
units = 2
actors = 2
slots = 8
engine = "{engine}"
reload_seconds = 0.1
[generation.cost]
step_seconds = 0.004
sequence_seconds = 0.0001
prefill_seconds = 0.00001
kv_seconds = 0
[training]
devices = 2
tokens_per_second = 20000
step_seconds = 0.1
publication_seconds = 0.05
switching_seconds = 0.05
reward_seconds = 0.02
[lag]
max_lag = 3
"""
NUM_STEPS = 10


def lengths_of(num_prompts: int) -> pl.DataFrame:
    """Every third response is long."""
    rows = range(num_prompts)
    return pl.DataFrame(
        {
            "prompt_id": rows, "mu": [3.0 + 1.5 * (row % 3 == 2) for row in rows],
            "sigma": [0.4] * num_prompts, "cap": [400] * num_prompts,
            "prompt_tokens": [5] * num_prompts, "sample_sigma": [0.3] * num_prompts,
        }
    )  # fmt: skip


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lengths table of 60 prompts; schedules with budgets, 2 epochs of steps of 2 minibatches."""
    folder = tmp_path_factory.mktemp("timed")
    lengths_of(60).write_parquet(folder / "lengths")
    heads = [[3, 3]] * NUM_STEPS
    tails = [[], [], *([[-1]] * (NUM_STEPS - 2)), [-1], [-1]]
    groups = [tail + head for tail, head in zip(tails, [*heads, [], []], strict=True)]
    predicted = ("predicted_tokens", "predicted_longest", "predicted_seconds")
    schedule_of(groups, samples=2, budgets=(60,)).with_columns(
        *(pl.lit(1.0).alias(name) for name in predicted), predicted_utilization=pl.lit(0.5)
    ).write_parquet(folder / "schedule")
    for engine in ("static", "continuous"):
        (folder / engine).write_text(CLUSTER.format(engine=engine))
    return folder


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """One Ray on this machine."""
    ray = pytest.importorskip("ray")
    ray.init(
        address="local", num_cpus=4, include_dashboard=False, log_to_driver=False,
        logging_level="error",
    )  # fmt: skip
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture
def train(files: Path, tmp_path: Path, ray_address: str) -> Callable[..., Path]:
    """Run in this process; the directory it wrote."""
    from rollout.trainer import stage

    def run(
        engine: str = "static", schedule: str | None = "schedule", scale: float = 0.02,
        cut: CutConfig | None = None, force: bool = False, **control: Any,
    ) -> Path:  # fmt: skip
        source = TimedConfig(str(files / engine), str(files / "lengths"), scale=scale)
        stage.run(
            None if schedule is None else str(files / schedule), str(tmp_path / "run"), source,
            ControlConfig(**control), cut or CutConfig(), RunConfig(checkpoint_every=4),
            force=force,
        )  # fmt: skip
        return tmp_path / "run"

    return run


def read_journal(place: Path, query: str) -> list[tuple[Any, ...]]:
    """Ask a run's journal."""
    with closing(sqlite3.connect(f"file:{place / 'journal.sqlite'}?mode=ro", uri=True)) as journal:
        return journal.execute(query).fetchall()
