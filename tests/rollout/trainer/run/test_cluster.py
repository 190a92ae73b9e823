"""Several nodes: units where there is room for them, and a node that is lost in the middle."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.rollout.trainer.run.test_faults import Victim, all_gone, check


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A node without CPUs for the driver, and two with one each: a Generation Unit on either."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes.workers = [nodes.add_node(num_cpus=1) for _ in range(2)]
    yield nodes
    nodes.shutdown()


@pytest.mark.slow
def test_a_node_is_lost_in_the_middle(cluster: Any, files: Path, tmp_path: Path) -> None:
    """Its unit finds no other place; the other unit does its work, each sample group once."""
    victim = Victim(files, tmp_path / "run", cluster.address, 2.0, "--unit-cpus", "1")
    victim.wait_for(3)
    assert {"GU0", "GU1", "TU"} == set(victim.processes())
    cluster.remove_node(cluster.workers[1], allow_graceful=False)
    words = victim.finish()
    check(victim)
    trace = pl.read_parquet(victim.place / "trace.parquet")
    events = Counter(trace["event"])
    assert events["lost"] >= 2, "two actors at least; the Training Unit may have been there, too"
    lost = trace.filter(pl.col("event") == "lost").filter(pl.col("unit") != "TU")
    assert lost["unit"].n_unique() == 1 and "is lost and begins anew" in words
    later = trace.filter(pl.col("time_s") > lost["time_s"].max(), pl.col("event") == "dispatch")
    assert set(later["unit"]) == {"GU0", "GU1"} - set(lost["unit"])
    assert all_gone(victim.pids)


def test_a_cluster_that_does_not_answer_leaves_nothing_behind(files: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    done = subprocess.run(
        [
            sys.executable, "-m", "asp_cli.main", "train", files / "schedule", "--engine", "timed",
            "--cluster", files / "static", "--lengths", files / "lengths", "-o", tmp_path / "run",
            "--ray", "127.0.0.1:1",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("asp: error: --ray 127.0.0.1:1: no Ray cluster is reached")
    assert not (tmp_path / "run").exists()
