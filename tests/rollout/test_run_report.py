"""A run told by what it wrote."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rollout.run_report import run
from rollout.simulator.ledger import Ledger
from rollout.simulator.measures import Measures
from stages.tables.errors import AspError
from stages.tables.io import write_table
from stages.tables.provenance import Provenance
from stages.tables.schemas import Metrics, Trace

LEDGERS = {"GU0": Ledger(useful=6.0, padding=2.0), "TU": Ledger(useful=2.0, sorting=6.0)}
MEASURES = Measures(
    4.0, 31.25, 3.0, 1.0, 0.75, 1, sum(LEDGERS.values(), Ledger()), 0, 0, 0
)  # fmt: skip

FOOTER = asdict(MEASURES) | {
    "seconds": 8.0, "ledger_u": {unit: asdict(own) for unit, own in LEDGERS.items()}
}  # fmt: skip

# Step 0 was made twice: the second time counts. Each step took from the one before's end.
ROWS = [
    (0.0, "join", "GU0", 0, None, None),
    (1.0, "train", "TU", 4, 0, 0),
    (2.0, "trained", "TU", 4, 1, None),
    (2.5, "lost", "TU", 4, None, None),
    (3.0, "train", "TU", 2, 0, 0),
    (4.0, "trained", "TU", 2, 1, None),
    (6.0, "train", "TU", 6, 1, 1),
    (8.0, "trained", "TU", 0, 2, None),
]

TOLD = """\
2 training steps in 8.0 s; 4.0 s an iteration, 31.2 tokens a second a device
Training Queue: 3 samples on average, swing (standard deviation) 1; lag: 0.75 steps on average, \
at most 1
device time: useful 50.0%, padding 12.5%, skew 0.0%, sorting 37.5%, reload 0.0%, switching 0.0%, \
carry 0.0%, lost 0.0%

device time      seconds     useful    padding       skew    sorting     reload  switching      \
carry       lost
GU0                  8.0      75.0%      25.0%       0.0%       0.0%       0.0%       0.0%       \
0.0%       0.0%
TU                   8.0      25.0%       0.0%       0.0%      75.0%       0.0%       0.0%       \
0.0%       0.0%
all                 16.0      50.0%      12.5%       0.0%      37.5%       0.0%       0.0%       \
0.0%       0.0%
"""
FROM_TRACE = """
steps           seconds a step           queue     largest lag
0 to 0                    4.00               2               0
1 to 1                    4.00               4               1
"""
FROM_METRICS = """
steps           seconds a step           queue          tokens        mean lag     largest lag\
          reward          capped
0 to 0                    4.00               2             120            0.00               0\
           0.250           0.00%
1 to 1                    4.00               4              80            1.00               1\
           0.750           1.50%
"""
EVENTS = "\nevents: join 1, lost 1, train 3, trained 3"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """In a directory of its own, with metrics beside it."""
    columns = ("time_s", "event", "unit", "queue_size", "policy_version", "lag")
    frame = pl.DataFrame(ROWS, schema=list(columns), orient="row").with_columns(
        actor=pl.lit(None, pl.Int64)
    )
    provenance = Provenance("train", "trace/1", results=FOOTER)
    write_table(frame, Trace, str(tmp_path / "trace.parquet"), provenance, force=False)
    metrics: dict[str, Any] = {
        "step": [0, 1], "group_id": [0, 1], "start_s": [3.0, 6.0], "end_s": [4.0, 8.0],
        "groups": [1, 3], "samples": [2, 6], "tokens": [120, 80], "mean_lag": [0.0, 1.0],
        "max_lag": [0, 1], "reward_mean": [0.25, 0.75], "capped_share": [0.0, 0.015],
    }  # fmt: skip
    write_table(
        pl.DataFrame(metrics), Metrics, str(tmp_path / "metrics.parquet"), provenance, force=False
    )
    return tmp_path / "trace.parquet"


def test_by_hand(trace: Path) -> None:
    assert run(str(trace)) == TOLD + FROM_TRACE + EVENTS
    assert run(str(trace.parent)) == TOLD + FROM_METRICS + EVENTS


def test_what_is_no_run_is_refused(trace: Path) -> None:
    (trace.parent / "metrics.parquet").unlink()
    with pytest.raises(AspError, match=r"holds no metrics\.parquet; a run of `asp train` writes"):
        run(str(trace.parent))
    frame = pl.read_parquet(trace)
    frame.write_parquet(trace)
    with pytest.raises(AspError, match="its footer does not tell where the time went"):
        run(str(trace))
    provenance = Provenance("simulate", "trace/1", results=FOOTER | {"mean_lag": "far"})
    write_table(frame, Trace, str(trace), provenance, force=True)
    with pytest.raises(AspError, match="its footer does not tell where the time went"):
        run(str(trace))
    provenance = Provenance("simulate", "trace/1", results=FOOTER)
    write_table(frame.filter(pl.col("event") == "join"), Trace, str(trace), provenance, force=True)
    with pytest.raises(AspError, match="tells of no training step"):
        run(str(trace))
