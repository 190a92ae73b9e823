"""What does a run look like in Perfetto?

In: a trace table. Out: JSON in Chrome's trace event format, which https://ui.perfetto.dev opens. A
process is a unit; a thread is an actor, and where it holds several minibatches at a time, one more
for each. A counter is the Training Queue.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import polars as pl

Event = dict[str, Any]
Key = tuple[int | None, ...]

MICROSECONDS = 1e6
STARTS = {"dispatch": "minibatch", "reload": "reload", "train": "train"}
ENDS = {"end", "reloaded", "trained"}
BREAKS = {"unload", "lost"}  # whatever the actor has ends with it
TRAINER = -1  # has no actor number


def chrome_trace(trace: pl.DataFrame) -> str:
    """Render a trace table."""
    events = [*_spans(trace), *_counters(trace)]
    units = sorted(trace["unit"].unique())
    threads = sorted({(event["pid"], event["tid"]) for event in events if event["ph"] == "X"})
    names: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": unit, "args": {"name": unit}} for unit in units
    ]
    names += [
        {"ph": "M", "name": "thread_name", "pid": unit, "tid": tid, "args": {"name": _named(*tid)}}
        for unit, tid in threads
    ]
    # The format wants numbers; the names are given in the events above.
    number_of = {unit: number for number, unit in enumerate(units)}
    thread_of = {thread: number for number, thread in enumerate(threads)}
    for event in (*names, *events):
        if "tid" in event:
            event["tid"] = thread_of[event["pid"], event["tid"]]
        event["pid"] = number_of[event["pid"]]
    return json.dumps({"traceEvents": [*names, *events]})


def _spans(trace: pl.DataFrame) -> Iterator[Event]:
    """What began and ended, each in a lane of its actor that is free then."""
    open_: dict[int, list[tuple[Key, int, float, str]]] = defaultdict(list)
    for row in trace.iter_rows(named=True):
        kind, now_s = row["event"], row["time_s"]
        actor = TRAINER if row["actor"] is None else row["actor"]
        key = row["epoch"], row["minibatch_id"], row["group_id"]
        if kind in STARTS:
            taken = {lane for _, lane, _, _ in open_[actor]}
            lane = next(lane for lane in range(len(taken) + 1) if lane not in taken)
            open_[actor].append((key, lane, now_s, STARTS[kind]))
        elif kind in BREAKS:
            for broken in open_.pop(actor, []):
                yield _span(row, broken, f"{broken[3]}, put down" if kind == "unload" else kind)
        elif kind in ENDS:
            # One that reloads or trains does nothing else; minibatches are told by what they are.
            place = [begun[0] for begun in open_[actor]].index(key) if kind == "end" else 0
            ended = open_[actor].pop(place)
            yield _span(row, ended, ended[3])


def _span(row: dict[str, Any], begun: tuple[Key, int, float, str], name: str) -> Event:
    (epoch, minibatch, group), lane, start_s, _ = begun
    return {
        "ph": "X",
        "name": name if minibatch is None else f"{name} {minibatch}",
        "pid": row["unit"],
        "tid": (TRAINER if row["actor"] is None else row["actor"], lane),
        "ts": MICROSECONDS * start_s,
        "dur": MICROSECONDS * (row["time_s"] - start_s),
        "args": {"epoch": epoch, "group_id": group},
    }


def _named(actor: int, lane: int) -> str:
    name = "training" if actor == TRAINER else f"actor {actor}"
    return f"{name}, {lane + 1}" if lane else name


def _counters(trace: pl.DataFrame) -> Iterator[Event]:
    """The queue, where it changes."""
    sizes = trace.filter(pl.col("queue_size") != pl.col("queue_size").shift()).select(
        "time_s", "queue_size"
    )
    for time_s, size in sizes.iter_rows():
        yield {
            "ph": "C", "name": "Training Queue", "pid": "TU", "ts": MICROSECONDS * time_s,
            "args": {"samples": size},
        }  # fmt: skip
