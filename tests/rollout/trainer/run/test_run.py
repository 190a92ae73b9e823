"""A whole run on processes, without a model: what it trains on, in which order, at which lag."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from rollout.control.schedule import plan_of
from rollout.run_report import run as report
from rollout.simulator.truth import draw_truth
from rollout.trainer.config import CutConfig
from rollout.trainer.engines.timed import read_weights
from stages.lengths import table as lengths_table
from stages.tables.errors import AspError
from tests.rollout.trainer.run.conftest import read_journal

Train = Callable[..., Path]


def trained_of(place: Path) -> list[list[int]]:
    """What the weights say that they were trained on, step by step."""
    steps: list[list[int]] = read_weights(place / "model")["trained"]
    return steps


@pytest.mark.parametrize("engine", ["static", pytest.param("continuous", marks=pytest.mark.slow)])
def test_a_schedule_is_trained_once_in_order_within_the_lag_bound(
    engine: str, train: Train, files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "asp"):
        place = train(engine)
    steps = trained_of(place)
    assert sorted(group for step in steps for group in step) == list(range(60))
    metrics, trace = (pl.read_parquet(place / f"{name}.parquet") for name in ("metrics", "trace"))
    assert metrics["max_lag"].max() <= 3
    assert metrics["max_lag"].max() == trace["lag"].max()
    assert metrics["groups"].to_list() == [len(step) for step in steps if step]
    assert metrics["step"].is_sorted() and trace["time_s"].is_sorted()
    # Cut responses went on: a group of a long response is trained on later than planned.
    moved = [group for step, groups in enumerate(steps) for group in groups if group // 6 != step]
    assert moved and all(group % 3 == 2 for group in moved)
    assert "all that were offered" in caplog.text
    journal = dict(read_journal(place, "SELECT number, step FROM trained"))
    assert journal == {group: step for step, groups in enumerate(steps) for group in groups}
    states = Counter(state for (state,) in read_journal(place, "SELECT state FROM groups"))
    assert states == {"trained": 60}
    made = read_journal(place, "SELECT tokens FROM trained ORDER BY number")
    assert [tuple(json.loads(tokens)) for (tokens,) in made] == simulated(files)
    told = report(str(place))
    there = set(trace["unit"]) & {"GU0", "GU1"}  # one may do everything before the other has begun
    assert there and all(f"\n{unit} " in told for unit in (*there, "TU", "all"))
    assert told.splitlines()[0] in caplog.text and f"{metrics['step'].max()}  " in told
    with pytest.raises(AspError, match="holds a finished run; give --force"):
        train(engine)


def simulated(files: Path) -> list[tuple[int, ...]]:
    """The lengths that the simulator draws under the same seed."""
    lengths = lengths_table.complete(pl.read_parquet(files / "lengths"))
    plan = plan_of(pl.read_parquet(files / "schedule"))
    return list(draw_truth(lengths, {}, 1, 2, 0).workload(plan).lengths_g)


def test_hybrid_takes_turns_and_async_takes_what_is_there(train: Train) -> None:
    cut = CutConfig(samples_per_prompt=2, batch_size=3, group_size=2, epochs=2)
    hybrid = train(schedule=None, mode="hybrid", cut=cut)
    metrics = pl.read_parquet(hybrid / "metrics.parquet")
    assert metrics["max_lag"].max() == 0
    trace = pl.read_parquet(hybrid / "trace.parquet")
    last = trace.filter(pl.col("event") == "train")
    for start_s, step in last.select("time_s", "policy_version").iter_rows():
        after = trace.filter(pl.col("time_s") > start_s, pl.col("event") == "dispatch")
        done = trace.filter(pl.col("event") == "trained", pl.col("policy_version") == step + 1)
        assert after.is_empty() or after["time_s"].min() >= done["time_s"].item()
    counts = Counter(group for step in trained_of(hybrid) for group in step)
    assert counts == Counter(range(120))
    waste = train(schedule=None, mode="async", cut=cut, force=True)
    assert Counter(group for step in trained_of(waste) for group in step) == counts
    prompts = read_journal(waste, "SELECT prompt, epoch FROM groups JOIN trained USING (number)")
    assert Counter(prompts) == Counter((prompt, epoch) for prompt in range(60) for epoch in (0, 1))


@pytest.mark.slow
def test_restarting_says_its_bias(train: Train, caplog: pytest.LogCaptureFixture) -> None:
    """Replayed lengths come again, so what is offered and trained on differs in nothing here."""
    with caplog.at_level("INFO", "asp"):
        place = train(carry="restart")
    assert Counter(group for step in trained_of(place) for group in step) == Counter(range(60))
    told = re.search(r"were ([\d.]+%) of those offered and are ([\d.]+%) of those", caplog.text)
    assert told and told[1] == told[2] != "0.0%"
