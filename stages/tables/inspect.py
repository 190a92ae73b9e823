"""What is in this file? Its table, rows, a summary in the terms of the field, its chain of inputs.

Also says whether it still validates, which a file edited by hand may not.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from stages.tables.errors import AspError
from stages.tables.io import Complete, conform, parse_parquet, read_bytes
from stages.tables.provenance import Provenance
from stages.tables.schemas import IS_AS_PLANNED, IS_HEAD, TABLES, is_marked
from stages.tables.utilization import utilization

Lines = list[tuple[str, str]]


def inspect(path: str, completes: Mapping[str, Complete]) -> tuple[str, bool]:
    """Describe a Parquet file of the toolchain; `-` is standard input.

    Args:
        path: The file.
        completes: How the derived columns of a table are computed, by table name.

    Returns:
        The description, and whether the file validates.

    Raises:
        AspError: Not a Parquet file, or of no known table.
    """
    name, data = read_bytes(path)
    frame = parse_parquet(name, data)
    provenance = Provenance.read(data)
    table = _table_of(frame, provenance, name)
    lines: Lines = [
        ("file", name),
        ("table", table),
        ("rows", f"{len(frame):,}"),
        ("columns", ", ".join(frame.columns)),
        ("sha256", hashlib.sha256(data).hexdigest()),
    ]
    try:
        frame = conform(frame, TABLES[table], name, completes.get(table))
        lines += [(label, text) for label, text in SUMMARIES[table](frame) if text]
        verdict, is_valid = "yes", True
    except AspError as error:
        verdict, is_valid = f"no: {error}", False
    lines += history(provenance)
    lines.append(("valid", verdict))
    return layout(lines), is_valid


def layout(lines: Lines) -> str:
    """Labels in a column, their texts beside them."""
    width = max(len(label) for label, _ in lines)
    return "\n".join(f"{label:<{width}}  {text}" for label, text in lines)


def _table_of(frame: pl.DataFrame, provenance: Provenance | None, name: str) -> str:
    """The table that the footer names, else the one whose required columns are all there."""
    if provenance and provenance.schema.split("/")[0] in TABLES:
        return provenance.schema.split("/")[0]
    required = {
        table: {
            column
            for column in schema.column_names()
            if not is_marked(schema, column, "optional")
            and not is_marked(schema, column, "derived")
        }
        for table, schema in TABLES.items()
        if table not in ("prompts", "schedule")
    }
    fitting = [table for table, columns in required.items() if columns <= set(frame.columns)]
    if not fitting:
        raise AspError(
            f"{name}: no table of the toolchain; its columns are "
            f"{', '.join(frame.columns) or 'none'} (see docs/tables.md)"
        )
    return max(fitting, key=lambda table: len(required[table]))


def history(provenance: Provenance | None) -> Lines:
    """The stage that wrote the file, what it measured, and the same for each input."""
    if provenance is None:
        return [("origin", "unknown: no `asp` footer; written or edited by other tools")]
    lines: Lines = []

    def walk(item: Provenance, depth: int) -> None:
        indent = "  " * depth
        config = " ".join(f"{key}={value}" for key, value in sorted(item.config.items()))
        lines.append((f"{indent}made by", f"{item.tool} {item.stage}: {config}"))
        if depth == 0 and item.results:
            results = (f"{k}={_number(v)}" for k, v in sorted(item.results.items()))
            lines.append(("results", " ".join(results)))
        for source in item.inputs:
            lines.append((f"{indent}  from", f"{source.role} sha256 {source.sha256[:16]}"))
            if source.provenance:
                walk(source.provenance, depth + 1)

    walk(provenance, 0)
    return lines


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _spread(frame: pl.DataFrame, column: str, unit: str) -> str:
    """mean, median, 90th percentile and largest of a column."""
    values = frame[column].cast(pl.Float64).drop_nulls()
    if values.is_empty():
        return ""
    return (
        f"mean {values.mean():,.1f}, median {values.median():,.1f}, "
        f"90th percentile {values.quantile(0.9):,.1f}, largest {values.max():,.1f} {unit}"
    )


def _profile(frame: pl.DataFrame) -> Lines:
    per_prompt = frame.group_by("prompt_hash").len()["len"]
    capped = frame.select(pl.col("finish_reason").cast(pl.String).eq("length").mean()).item()
    return [
        (
            "prompts",
            f"{len(per_prompt):,}, {per_prompt.min()} to {per_prompt.max()} responses each",
        ),
        ("models", ", ".join(frame["model"].unique().sort())),
        ("response", _spread(frame, "response_tokens", "tokens")),
        ("at the cap", f"{capped:.1%} of responses"),
    ]


def _heldout(frame: pl.DataFrame) -> Lines:
    return [
        ("observed mean", _spread(frame, "observed_mean", "tokens")),
        ("predicted mean", _spread(frame, "expected_tokens", "tokens")),
    ]


def _lengths(frame: pl.DataFrame) -> Lines:
    n = frame["samples_per_prompt"]
    return [
        ("expected", _spread(frame, "expected_tokens", "tokens")),
        (f"longest of {n.max()}", _spread(frame, "expected_longest", "tokens")),
        ("sigma", _spread(frame, "sigma", "log tokens")),
        ("cap risk", f"mean {frame['p_cap'].mean():.1%}, largest {frame['p_cap'].max():.1%}"),
    ]


def _minibatches(frame: pl.DataFrame) -> Lines:
    heads = frame.filter(IS_HEAD)
    paid = float((frame["num_samples"] * frame["predicted_longest"]).sum())
    useful = float(heads["predicted_tokens"].sum())
    return [
        ("prompts", f"{heads['num_prompts'].sum():,}"),
        ("sizes", f"{heads['num_prompts'].min()} to {heads['num_prompts'].max()} prompts"),
        ("longest", _spread(heads, "predicted_longest", "tokens")),
        ("utilisation", f"{utilization(useful, paid):.3f} predicted, static engine"),
        ("budgets", _budgets(frame)),
    ]


def _budgets(frame: pl.DataFrame) -> str:
    """The ladder of token budgets, and the tails that it leads to; nothing where there is none."""
    if "token_budget" not in frame.columns or not frame["token_budget"].count():
        return ""
    budgets = frame["token_budget"].drop_nulls().unique().sort()
    ladder = ", ".join(f"{budget:,}" for budget in budgets)
    num_tails = len(frame.filter(~IS_HEAD))
    return f"{ladder} tokens, then none; {num_tails:,} tail minibatches"


def _groups(frame: pl.DataFrame) -> Lines:
    groups = frame.group_by("epoch", "group_id").agg(
        pl.col("predicted_seconds").sum(),
        pl.col("num_prompts").filter(IS_HEAD).sum(),
        IS_HEAD.sum().alias("len"),
    )
    seconds, sizes = groups["predicted_seconds"], groups["len"]
    return [
        ("epochs", str(frame["epoch"].n_unique())),
        (
            "minibatches",
            f"{sizes.sum():,} in {len(groups):,} groups of {sizes.min()} to {sizes.max()}",
        ),
        ("prompts a group", f"{groups['num_prompts'].min()} to {groups['num_prompts'].max()}"),
        ("seconds a group", f"{seconds.min():,.1f} to {seconds.max():,.1f} predicted"),
        *_minibatches(frame.filter(pl.col("epoch") == frame["epoch"].min())),
    ]


def _trace(frame: pl.DataFrame) -> Lines:
    return [("time", f"to {frame['time_s'].max():,.1f} s"), ("lag", _spread(frame, "lag", "steps"))]


def _plans(frame: pl.DataFrame) -> Lines:
    knee = frame.filter("is_knee")
    return [
        ("knee", ", ".join(f"{name} {knee[name].item()}" for name in knee.columns[:8])),
        ("gain", f"{knee['gain'].item():.2f}x over the plain setting"),
    ]


def _metrics(frame: pl.DataFrame) -> Lines:
    return [
        ("trained", f"{frame['samples'].sum():,} samples, {frame['tokens'].sum():,} tokens"),
        ("time", f"to {frame['end_s'].max():,.1f} s"),
        ("largest lag", f"{frame['max_lag'].max()} steps"),
    ]


def _verified(frame: pl.DataFrame) -> Lines:
    num_kept = frame.filter(IS_AS_PLANNED).height
    return [("steps", f"{num_kept:,} of {len(frame):,} as planned")]


def _nothing(frame: pl.DataFrame) -> Lines:
    return []


SUMMARIES: dict[str, Callable[[pl.DataFrame], Lines]] = {
    "prompts": _nothing,
    "profile": _profile,
    "heldout": _heldout,
    "lengths": _lengths,
    "minibatches": _minibatches,
    "groups": _groups,
    "schedule": _groups,
    "trace": _trace,
    "plans": _plans,
    "metrics": _metrics,
    "verified": _verified,
}
