"""Which prompts are generated together?

In: lengths. Out: minibatches. Prompts are sorted by predicted length and cut where the chosen
objective is best, with sizes floating within base x (1 +- slack) (ASP, arXiv 2611.08864, offline
pass, step 2; the objective's exact form is ours).

    asp partition lengths.parquet --batch-size 32 -o minibatches.parquet
"""

from dataclasses import asdict, replace
from functools import partial

import numpy as np
import polars as pl

from stages.costs.file import read_cost_model
from stages.lengths import table as lengths_table
from stages.partition import memory
from stages.partition.config import PartitionConfig
from stages.partition.minibatches import describe_minibatches
from stages.partition.objective import ascending, cost_of
from stages.partition.programme import Ints, Partition, cut_freely, cut_into
from stages.partition.sizes import Sizes, sizes_for
from stages.partition.tails import add_budgets
from stages.tables.errors import AspError, log, told_when_slow
from stages.tables.io import check_output, read_table, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Lengths, Minibatches
from stages.tables.utilization import utilization

LARGEST_COUNT = 2**53  # responses; floats hold every whole number up to it


def partition(
    lengths: pl.DataFrame, config: PartitionConfig, name: str = "the lengths table"
) -> tuple[pl.DataFrame, dict[str, object]]:
    """Cut the prompts of a complete lengths table, in messages `name`, into minibatches.

    Returns:
        The minibatches table, and what is to be said of it: objective, count, gap.
    """
    num_samples = _samples_per_prompt(lengths, name)
    _check_count(lengths, num_samples, name)
    sizes = sizes_for(len(lengths), config.batch_size, config.slack)
    if config.method == "random":
        order = np.random.default_rng(config.seed).permutation(len(lengths))
    else:
        order = ascending(lengths, config.sort_by)
    ordered = lengths[order]
    if config.method == "exact":
        cut = _cut(ordered, num_samples, sizes, config, name)
        ends = cut.ends
        sign = -1 / len(ends) if config.objective == "utilization" else 1.0
        results: dict[str, object] = {
            "objective": config.objective,
            "objective_value": sign * cut.total,
            "objective_bound": sign * cut.bound,
            "gap": cut.gap,
        }
    else:
        ends = _cut_evenly(ordered, num_samples, config, name)
        results = {"objective": config.method}
    minibatches = describe_minibatches(ordered, ends, num_samples, config.cost_model)
    useful = float(minibatches["predicted_tokens"].sum())
    budgets: dict[str, object] = {}
    if config.budgets.max_lag:
        minibatches, ladder = add_budgets(minibatches, ordered, ends, config)
        budgets = ladder.results(len(lengths))
    paid = float((minibatches["num_samples"] * minibatches["predicted_longest"]).sum())
    results |= {
        "num_prompts": len(lengths),
        "num_minibatches": len(ends),
        "is_within_slack": sizes.is_within_slack or config.method != "exact",
        "predicted_utilization": float(utilization(useful, paid)),
    }
    if config.kv_tokens is not None:
        results |= _limited(np.diff(ends, prepend=0), sizes, config)
    return minibatches, results | budgets


def _cut(
    ordered: pl.DataFrame, num_samples: int, sizes: Sizes, config: PartitionConfig, name: str
) -> Partition:
    """The best cut of the objective, among minibatches that fit into memory."""
    limits = None
    if config.kv_tokens is not None:
        most_p = memory.largest_sizes(ordered, num_samples, sizes.hi, config.kv_tokens, name)
        sizes, limits = memory.limit(sizes, most_p)
    cost = cost_of(ordered, config.sort_by, config.objective, config.cost_model, num_samples, sizes)
    if limits is not None:
        cost = replace(cost, least_p=limits.least_p, most_p=limits.most_p)
    if config.objective == "seconds" and sizes.is_within_slack:
        cut = cut_freely(cost, sizes.lo, sizes.hi)
        assert cut is not None, "a feasible count has a partition"
        return cut
    return cut_into(cost, sizes.lo, sizes.hi, sizes.count)


def _cut_evenly(
    ordered: pl.DataFrame, num_samples: int, config: PartitionConfig, name: str
) -> Ints:
    """Ends of minibatches of batch_size prompts, or of what fits; the last holds the rest."""
    step = min(config.batch_size, len(ordered))
    if config.kv_tokens is not None:
        return memory.fill_in_order(
            memory.largest_sizes(ordered, num_samples, step, config.kv_tokens, name)
        )
    return np.append(np.arange(step, len(ordered), step), len(ordered))


def _limited(sizes_b: Ints, sizes: Sizes, config: PartitionConfig) -> dict[str, object]:
    """Minibatches below the size wanted, and minibatches beyond the number wanted.

    The last of a baseline holds what is left over, whatever the limit. Where seconds are minimised
    any number is wanted.
    """
    if config.method != "exact":
        count = -(-int(sizes_b.sum()) // config.batch_size)
        is_small_b = sizes_b[:-1] < config.batch_size
    else:
        count = len(sizes_b) if config.objective == "seconds" else sizes.count
        is_small_b = sizes_b < sizes.lo
    return {"num_small": int(is_small_b.sum()), "num_added": len(sizes_b) - count}


def _samples_per_prompt(lengths: pl.DataFrame, name: str) -> int:
    values = lengths.get_column("samples_per_prompt").unique().sort()
    if len(values) > 1:
        raise AspError(
            f"{name}: holds prompts with {values[0]} and with {values[-1]} "
            "samples_per_prompt; say which n training uses: --samples-per-prompt N"
        )
    return int(values[0])


def _check_count(lengths: pl.DataFrame, num_samples: int, name: str) -> None:
    """Refuse more responses than the columns of the minibatches table can count."""
    if len(lengths) * num_samples >= LARGEST_COUNT:
        raise AspError(
            f"{name}: {num_samples} samples_per_prompt for {len(lengths)} prompts are "
            "more responses than can be counted exactly (2^53); give --samples-per-prompt N"
        )


def run(
    source: str,
    output: str,
    config: PartitionConfig,
    force: bool = False,
    cost_model: str | None = None,
) -> None:
    """Read lengths, cut, write minibatches, say what came out.

    `cost_model` is a file of coefficients or a profile to fit them to, in place of the config's.
    """
    check_output(output, force)
    table = read_table(
        source,
        Lengths,
        partial(lengths_table.complete, samples_per_prompt=config.samples_per_prompt),
    )
    inputs = [Input("lengths", table.sha256, table.provenance)]
    fit: dict[str, object] = {}
    if cost_model is not None:
        measured = read_cost_model(cost_model)
        config, fit = replace(config, cost_model=measured.model), measured.results
        inputs.append(measured.input)
    _warn_of_unknown_prompts(table.frame, config, table.name)
    with told_when_slow("cutting %d prompts into minibatches", len(table.frame)):
        minibatches, results = partition(table.frame, config, table.name)
    _report(results, config)
    provenance = Provenance(
        stage="partition",
        schema="minibatches/1",
        config=asdict(config) | {"samples_per_prompt": int(table.frame["samples_per_prompt"][0])},
        seed=config.seed,
        results=results | fit,
        inputs=tuple(inputs),
    )
    write_table(minibatches, Minibatches, output, provenance, force)


def _warn_of_unknown_prompts(lengths: pl.DataFrame, config: PartitionConfig, name: str) -> None:
    num_unknown = lengths["prompt_tokens"].null_count()
    if num_unknown and config.cost_model.counts_prompts:
        log.warning(
            "%s: column 'prompt_tokens' is null or missing for %d of %d prompts; their prefill and "
            "context are taken to cost nothing", name, num_unknown, len(lengths),
        )  # fmt: skip


def _report(results: dict[str, object], config: PartitionConfig) -> None:
    if not results["is_within_slack"]:
        log.warning(
            "%d prompts cannot be cut into minibatches of %d +- %g%%; sizes differ by at most one",
            results["num_prompts"], config.batch_size, 100 * config.slack,
        )  # fmt: skip
    if results.get("num_small") or results.get("num_added"):
        log.warning(
            "--kv-tokens %d: %d minibatches hold fewer prompts than the batch size and slack say, "
            "and there are %d more of them",
            config.kv_tokens, results["num_small"], results["num_added"],
        )  # fmt: skip
    log.info(
        "%d prompts in %d minibatches, predicted utilisation %.3f%s",
        results["num_prompts"],
        results["num_minibatches"],
        results["predicted_utilization"],
        _gap_in_words(results),
    )
    if "token_budgets" in results:
        _report_budgets(results)


def _report_budgets(results: dict[str, object]) -> None:
    budgets: list[int] = results["token_budgets"]  # type: ignore[assignment]
    if not budgets:
        log.info("no token budgets: none within the lag bound is expected to save time")
        return
    figures = ("device_seconds", "device_seconds_without", "mean_delay", "cut_groups")
    seconds, without, delay, cut = (float(results[name]) for name in figures)  # type: ignore[arg-type]
    log.info(
        "token budgets %s, then none: device time %.0f s in place of %.0f s (%.2fx) expected; "
        "%.0f%% of the sample groups are cut and complete %.1f steps later, at most %d; "
        "%d tail minibatches",
        ", ".join(map(str, budgets)), seconds, without, without / seconds, 100 * cut, delay,
        results["largest_delay"], results["num_tails"],
    )  # fmt: skip


def _gap_in_words(results: dict[str, object]) -> str:
    if "gap" not in results:
        return ""
    gap = float(results["gap"])  # type: ignore[arg-type]
    verdict = "optimal" if gap < 1e-9 else f"within {100 * gap:.2g}% of the best"
    return f"; objective {results['objective']} = {results['objective_value']:.6g}, {verdict}"
