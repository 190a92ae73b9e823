"""What the benchmarks of the trainer conclude, and what they read from a run."""

from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from rollout.control.schedule import plan_of
from rollout.control.uniform import uniform_schedule
from rollout.simulator.workload import workload_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return __import__("twin")


@pytest.fixture
def convergence(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return __import__("convergence")


def test_a_verdict_rests_on_the_end_of_the_interval(convergence: ModuleType) -> None:
    """Of 4 differences, mean -0.02 and deviation 0.02: t(3) at 95% is 2.353, so 0.0235 down."""
    differences = -0.02 + 0.02 * np.sqrt(0.75) * np.array([-1.0, 1.0, -1.0, 1.0])
    assert convergence.lower_end(differences) == pytest.approx(-0.02 - 0.02353, abs=1e-5)
    assert convergence.verdict("ASP", differences) == "not inferior"
    assert convergence.verdict("ASP", differences - 0.01) == "not shown to be not inferior"
    assert convergence.verdict("control", differences - 0.05).startswith("does not degrade")
    assert convergence.verdict("control", differences - 0.06) == "degrades, as it must"
    assert convergence.verdict("ASP", differences[:1]) == "one seed: no verdict"


def test_only_minibatches_that_ran_at_once_are_fitted(twin: ModuleType) -> None:
    """The second is put down and dispatched again; the third has not ended."""
    plan = plan_of(uniform_schedule(range(6), 2, 3, 2))
    workload = workload_of(plan, lambda prompt: (10 + prompt, 20 + prompt), lambda prompt: prompt)
    events = [
        (0.0, "dispatch", 0, 0), (0.0, "dispatch", 1, 1), (1.0, "unload", 1, None),
        (2.5, "end", 0, 0), (3.0, "dispatch", 1, 1), (4.0, "dispatch", 0, 2), (5.0, "end", 1, 1),
    ]  # fmt: skip
    trace = pl.DataFrame(
        events, ("time_s", "event", "actor", "minibatch_id"), orient="row"
    ).with_columns(epoch=pl.lit(0, pl.Int64))
    (row,) = twin.undisturbed(trace, plan, workload).iter_rows(named=True)
    assert row["latency_s"] == 2.5
    assert (row["response_tokens"], row["prompt_tokens"], row["concurrency"]) == (21, 0.5, 4)


def test_a_gap_is_from_an_event_to_the_next_of_the_same_actor(twin: ModuleType) -> None:
    events = [
        (0.0, "reload", 0), (1.0, "reload", 1), (1.5, "reloaded", 1), (2.0, "reloaded", 0),
        (3.0, "reload", 0),
    ]  # fmt: skip
    trace = pl.DataFrame(events, ("time_s", "event", "actor"), orient="row")
    assert twin.gap(trace, "reload", "reloaded", "actor") == pytest.approx((2.0 + 0.5) / 2)
