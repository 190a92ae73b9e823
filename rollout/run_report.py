"""What did a run come to, as its own trace and metrics tell?

In: what `asp train` or `asp simulate` wrote: a run's directory, or a trace table alone. Out: words,
with a line a unit for where its device time went, and a line for each tenth of the training steps.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rollout.simulator import words
from rollout.simulator.ledger import Ledger
from rollout.simulator.measures import Measures
from stages.tables.errors import AspError
from stages.tables.io import Table, read_table
from stages.tables.schemas import Metrics, Trace

TRACE, METRICS = "trace.parquet", "metrics.parquet"
NUM_SPANS = 10  # lines for the training steps, at most
MEASURED = {  # columns of the Training Unit: title, form
    "reward_mean": ("reward", "{:.3f}"),
    "loss": ("loss", "{:.4f}"),
    "kl": ("KL", "{:.4f}"),
    "entropy": ("entropy", "{:.3f}"),
    "grad_norm": ("gradient", "{:.3f}"),
    "capped_share": ("capped", "{:.2%}"),
}


def run(path: str) -> str:
    """Read, and render as text.

    Raises:
        AspError: It is no run, or one that is not over.
    """
    place = Path(path)
    if not place.is_dir():
        trace = read_table(path, Trace)
        return _render(trace, _steps_of(trace.frame))
    for name in (TRACE, METRICS):
        if not (place / name).exists():
            raise AspError(
                f"{path}: holds no {name}; a run of `asp train` writes it when it is over, and "
                "the same command goes on where it stopped"
            )
    metrics = read_table(str(place / METRICS), Metrics)
    return _render(read_table(str(place / TRACE), Trace), metrics.frame)


def _render(trace: Table, steps: pl.DataFrame) -> str:
    measures, seconds, ledger_u = _recorded(trace)
    blocks = [
        words.of_run(measures, len(steps), seconds),
        _ledgers(ledger_u, measures.ledger),
        _spans(steps, trace.frame),
        [_events(trace.frame)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _recorded(trace: Table) -> tuple[Measures, float, dict[str, Ledger]]:
    """Measures, seconds and ledgers, from the footer."""
    results = trace.provenance.results if trace.provenance else {}
    try:
        ledger_u = {unit: _ledger(spent) for unit, spent in results["ledger_u"].items()}
        numbers = {
            field.name: _number(results[field.name])
            for field in fields(Measures)
            if field.name != "ledger"
        }
        measures = Measures(ledger=_ledger(results["ledger"]), **numbers)  # type: ignore[arg-type]
        seconds = _number(results["seconds"])
        if not measures.ledger.total:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise AspError(
            f"{trace.name}: its footer does not tell where the time went; `asp simulate` and "
            "`asp train` write it"
        ) from None
    return measures, seconds, ledger_u


def _ledger(spent: Mapping[str, Any]) -> Ledger:
    return Ledger(**{field.name: _number(spent[field.name]) for field in fields(Ledger)})


def _number(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError
    return value


def _ledgers(ledger_u: Mapping[str, Ledger], whole: Ledger) -> list[str]:
    """Device-seconds by unit, in shares."""
    lines = [f"{'device time':14}{'seconds':>10}" + "".join(f"{n:>11}" for n in whole.as_dict())]
    for unit, ledger in [*sorted(ledger_u.items()), ("all", whole)]:
        tenths = ledger.tenths() if ledger.total else dict.fromkeys(ledger.as_dict(), 0)
        cells = "".join(f"{share / 10:>10.1f}%" for share in tenths.values())
        lines.append(f"{unit:14}{ledger.total:>10,.1f}{cells}")
    return lines


def _steps_of(trace: pl.DataFrame) -> pl.DataFrame:
    """The training steps that a trace tells of: of one that was made again, the last time."""
    begun = trace.filter(pl.col("event") == "train", pl.col("lag").is_not_null())
    over = trace.filter(pl.col("event") == "trained").select(
        pl.col("policy_version") - 1, end_s="time_s"
    )
    steps = begun.unique("policy_version", keep="last", maintain_order=True).join(
        over.unique("policy_version", keep="last"), on="policy_version", maintain_order="left"
    )
    if steps.is_empty():
        raise AspError("the trace tells of no training step that was over: there is no run")
    return steps.select(step="policy_version", end_s="end_s", max_lag="lag").sort("step")


def _spans(steps: pl.DataFrame, trace: pl.DataFrame) -> list[str]:
    """A line for so many steps, one after the other."""
    measured = {name: told for name, told in MEASURED.items() if name in steps.columns}
    titles = ["seconds a step", "queue", "largest lag"]
    titles[2:2] = ["tokens", "mean lag"] if "tokens" in steps.columns else []
    titles += [title for title, _ in measured.values()]
    lines = [f"{'steps':14}" + "".join(f"{title:>16}" for title in titles)]
    size = -(-len(steps) // NUM_SPANS)
    start_s = 0.0
    for span in steps.iter_slices(size):
        end_s = float(span["end_s"][-1])
        cells = [f"{(end_s - start_s) / len(span):,.2f}", f"{_queue(trace, start_s, end_s):,.0f}"]
        if "tokens" in span.columns:
            cells += [f"{span['tokens'].mean():,.0f}", f"{_mean_lag(span):.2f}"]
        cells.append(str(span["max_lag"].max()))
        cells += [form.format(span[name].mean()) for name, (_, form) in measured.items()]
        steps_told = f"{span['step'][0]} to {span['step'][-1]}"
        lines.append(f"{steps_told:14}" + "".join(f"{cell:>16}" for cell in cells))
        start_s = end_s
    return lines


def _mean_lag(span: pl.DataFrame) -> float:
    return float(np.average(span["mean_lag"].to_numpy(), weights=span["samples"].to_numpy()))


def _queue(trace: pl.DataFrame, start_s: float, end_s: float) -> float:
    """Mean over time of the Training Queue, constant between events [samples]."""
    known = trace.drop_nulls("queue_size").select("time_s", "queue_size")
    lasts = known["time_s"].shift(-1).fill_null(end_s).clip(start_s, end_s)
    weight = lasts - known["time_s"].clip(start_s, end_s)
    total = float(weight.sum())
    return float((weight * known["queue_size"]).sum()) / total if total else 0.0


def _events(trace: pl.DataFrame) -> str:
    """How often what happened."""

    def counted() -> Iterator[str]:
        for event, count in trace["event"].value_counts().sort("event").iter_rows():
            yield f"{event} {count:,}"

    return "events: " + ", ".join(counted())
