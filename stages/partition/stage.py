"""Which prompts are generated together?

In: lengths. Out: minibatches. Prompts are sorted by predicted length and cut where the chosen
objective is best, with sizes floating within base x (1 +- slack) (ASP, arXiv 2611.08864, offline
pass, step 2; the objective's exact form is ours).

    asp partition lengths.parquet --batch-size 32 -o minibatches.parquet
"""

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtri

from stages.costs.model import CostModel
from stages.lengths import lognormal
from stages.lengths import table as lengths_table
from stages.partition.expected_padding import price_windows
from stages.partition.programme import Cost, Floats, Ints, Partition, cut_freely, cut_into
from stages.tables.errors import AspError, log
from stages.tables.io import check_output, read_table, write_table
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Groups, Lengths, Minibatches

Objective = Literal["expected-padding", "utilization", "padding", "seconds"]
Key = Literal["upper", "longest", "expected"]
Method = Literal["exact", "fixed", "random"]

UPPER_LEVEL = 0.98  # of the quantile that the sort key `upper` is
LARGEST_EXPONENT = 700.0  # exp of more is no number any longer
MOST_PRICES = 2**27  # candidate minibatches priced, 1 GiB of them
LARGEST_COUNT = 2**53  # responses; floats hold every whole number up to it
LARGEST_LENGTH = 1e200  # tokens; far above any cap, and sums stay finite


@dataclass(frozen=True)
class PartitionConfig:
    """How to cut. With sizes s = batch_size x (1 +- slack), l the sort key, E expected tokens:

    - expected-padding: the sum over minibatches of s x the expected longest of all its samples,
      minimised, count fixed;
    - utilization: the mean over minibatches of sum(E) / (s x max l), maximised, count fixed;
    - padding: the sum over minibatches of s x max l, minimised, count fixed;
    - seconds: the sum of max l x (step + sequence x samples of one), minimised, any count.
    """

    batch_size: int = 32  # prompts
    slack: float = 0.25  # 0 to 1
    samples_per_prompt: int | None = None  # the n of training; None: as the lengths table says
    objective: Objective = "expected-padding"
    by: Key | None = None  # sort key; None: upper for expected-padding, expected for the others
    method: Method = "exact"
    seed: int = 0  # of method random

    @property
    def sort_by(self) -> Key:
        """The sort key: spread counts where the longest is what is priced."""
        return self.by or ("upper" if self.objective == "expected-padding" else "expected")


@dataclass(frozen=True)
class Sizes:
    """Legal minibatch sizes [prompts] and how many minibatches there are to be."""

    lo: int
    hi: int
    count: int
    is_within_slack: bool


def sizes_for(num_prompts: int, batch_size: int, slack: float) -> Sizes:
    """Sizes within batch_size x (1 +- slack), and the feasible count nearest N / batch_size.

    A count m is feasible where m lo <= N <= m hi; of two as near the larger is taken. Where none
    is feasible, ceil(N / batch_size) minibatches whose sizes differ by at most one.
    """
    tolerance = 1e-9  # 10 x (1 - 0.1) is 9, whatever floating point says
    lo = max(1, math.ceil(batch_size * (1 - slack) - tolerance))
    hi = math.floor(batch_size * (1 + slack) + tolerance)
    fewest, most = math.ceil(num_prompts / hi), num_prompts // lo
    if fewest > most:
        count = math.ceil(num_prompts / batch_size)
        return Sizes(num_prompts // count, math.ceil(num_prompts / count), count, False)
    nearest = math.floor(num_prompts / batch_size + 0.5)
    return Sizes(lo, hi, min(max(nearest, fewest), most), True)


def partition(
    lengths: pl.DataFrame, config: PartitionConfig, name: str = "the lengths table"
) -> tuple[pl.DataFrame, dict[str, object]]:
    """Cut the prompts of a complete lengths table, in messages `name`, into minibatches.

    Returns:
        The minibatches table, and what is to be said of it: objective, count, gap.
    """
    num_samples = _samples_per_prompt(lengths, name)
    _check_sums(lengths, num_samples, name)
    sizes = sizes_for(len(lengths), config.batch_size, config.slack)
    if config.method == "exact":
        order = _ascending(lengths, config.sort_by)
        cut = _cut(lengths, order, num_samples, sizes, config)
        ends = cut.ends
        sign = -1 / len(ends) if config.objective == "utilization" else 1.0
        results: dict[str, object] = {
            "objective": config.objective,
            "objective_value": sign * cut.total,
            "objective_bound": sign * cut.bound,
            "gap": cut.gap,
        }
    else:
        order = (
            _ascending(lengths, config.sort_by)
            if config.method == "fixed"
            else np.random.default_rng(config.seed).permutation(len(lengths))
        )
        step = min(config.batch_size, len(order))
        ends = np.append(np.arange(step, len(order), step), len(order))
        results = {"objective": config.method}
    minibatches = describe_minibatches(lengths, order, ends, num_samples)
    results |= {
        "num_prompts": len(lengths),
        "num_minibatches": len(ends),
        "is_within_slack": sizes.is_within_slack or config.method != "exact",
        "predicted_utilization": _utilization(minibatches),
    }
    return minibatches, results


def _utilization(minibatches: pl.DataFrame) -> float:
    """Useful over paid slot-steps of all minibatches; 1 where nothing is paid."""
    useful = float(minibatches["predicted_tokens"].sum())
    paid = float((minibatches["num_samples"] * minibatches["predicted_longest"]).sum())
    return useful / paid if paid else 1.0


def _samples_per_prompt(lengths: pl.DataFrame, name: str) -> int:
    values = lengths.get_column("samples_per_prompt").unique().sort()
    if len(values) > 1:
        raise AspError(
            f"{name}: holds prompts with {values[0]} and with {values[-1]} "
            "samples_per_prompt; say which n training uses: --samples-per-prompt N"
        )
    return int(values[0])


def _sort_key(lengths: pl.DataFrame, by: Key) -> pl.Series:
    """The length [tokens] by which prompts are sorted.

    `upper` is not capped: of two prompts that both meet the cap, the one more likely to is longer.
    """
    if by == "upper":
        deviations = float(ndtri(UPPER_LEVEL))
        exponent = lengths.select(pl.col("mu") + deviations * pl.col("sigma")).to_series()
        return exponent.clip(upper_bound=LARGEST_EXPONENT).exp()
    return lengths["expected_tokens" if by == "expected" else "expected_longest"]


def _check_sums(lengths: pl.DataFrame, num_samples: int, name: str) -> None:
    """Refuse what adds up to more than the columns of the minibatches table can hold."""
    if len(lengths) * num_samples >= LARGEST_COUNT:
        raise AspError(
            f"{name}: {num_samples} samples_per_prompt for {len(lengths)} prompts are "
            "more responses than can be counted exactly (2^53); give --samples-per-prompt N"
        )
    for column in ("expected_tokens", "expected_longest"):
        largest = float(lengths.get_column(column).max())  # type: ignore[arg-type]
        if largest > LARGEST_LENGTH:
            raise AspError(
                f"{name}: column {column!r} holds {largest:g}, which is above "
                f"{LARGEST_LENGTH:g} and cannot be added up; correct it"
            )


def _ascending(lengths: pl.DataFrame, by: Key) -> Ints:
    """Row numbers in ascending length; equal lengths in the order of their prompt_id."""
    return (
        lengths.select(pl.arg_sort_by(_sort_key(lengths, by), "prompt_id"))
        .to_series()
        .to_numpy()
        .astype(np.int64)
    )


def _cut(
    lengths: pl.DataFrame, order: Ints, num_samples: int, sizes: Sizes, config: PartitionConfig
) -> Partition:
    capped = pl.min_horizontal(_sort_key(lengths, config.sort_by), "cap")
    key_p = lengths.select(capped.cast(pl.Float64)).to_series().to_numpy()[order]
    if config.objective == "expected-padding":
        cost = _expected_padding(lengths[order], key_p, num_samples, sizes)
    elif config.objective == "utilization":
        cost = Cost.utilization(key_p, lengths.get_column("expected_tokens").to_numpy()[order])
    elif config.objective == "padding":
        cost = Cost.padding(key_p)
    else:
        model = CostModel()
        cost = Cost.seconds(key_p, model.step_seconds, model.sequence_seconds * num_samples)
    if config.objective == "seconds" and sizes.is_within_slack:
        cut = cut_freely(cost, sizes.lo, sizes.hi)
        assert cut is not None, "a feasible count has a partition"
        return cut
    return cut_into(cost, sizes.lo, sizes.hi, sizes.count)


def _expected_padding(ordered: pl.DataFrame, key_p: Floats, num_samples: int, sizes: Sizes) -> Cost:
    """Without any spread it is padding, which is exact; the grid of the other is not."""
    mu_p, sigma_p, cap_p = _distribution(ordered)
    if not sigma_p.any():
        return Cost.padding(key_p)
    hi = min(sizes.hi, len(ordered))
    num_prices = len(ordered) * (hi - sizes.lo + 1)
    if num_prices > MOST_PRICES:
        raise AspError(
            f"expected-padding would price {num_prices:,} minibatches, of {sizes.lo} to {hi} "
            "prompts; give a smaller --slack or --batch-size, or --objective padding"
        )
    chance_p = lengths_table.sample_sigma(ordered)
    table = price_windows(mu_p, sigma_p, cap_p, num_samples, chance_p, sizes.lo, hi)
    return Cost.tabulated(mu_p, table, sizes.lo)


def _distribution(lengths: pl.DataFrame) -> tuple[Floats, Floats, Floats]:
    mu_p, sigma_p, cap_p = (lengths[c].cast(pl.Float64).to_numpy() for c in ("mu", "sigma", "cap"))
    return mu_p, sigma_p, cap_p


def describe_minibatches(
    lengths: pl.DataFrame, order: NDArray[np.int64], ends: Ints, num_samples: int
) -> pl.DataFrame:
    """The minibatches table for prompts in `order`, cut at `ends`.

    Extra columns of the lengths table become lists in the order of prompt_ids.
    """
    ordered = lengths[order]
    starts = np.concatenate(([0], ends[:-1]))
    sizes = ends - starts
    mu_p, sigma_p, cap_p = _distribution(ordered)
    longest_b = lognormal.expected_longest_of_sets(
        mu_p, sigma_p, cap_p, num_samples,
        np.append(starts, len(order)), lengths_table.sample_sigma(ordered),
    )  # fmt: skip
    tokens_b = num_samples * np.add.reduceat(ordered["expected_tokens"].to_numpy(), starts)
    samples_b = num_samples * sizes
    paid_b = samples_b * longest_b
    extra = [c for c in ordered.columns if c not in Lengths.column_names()]
    clashing = [c for c in extra if c in Groups.column_names()]
    if clashing:
        log.warning(
            "column %s of the lengths table is left out: its name has a meaning of its own in the "
            "tables of the next stages; rename it to keep it", ", ".join(map(repr, clashing)),
        )  # fmt: skip
    extra = [c for c in extra if c not in clashing]
    held = ordered.select(
        pl.Series("minibatch_id", np.repeat(np.arange(len(ends)), sizes)),
        pl.col("prompt_id").alias("prompt_ids"),
        pl.col("prompt_hash").alias("prompt_hashes"),
        *extra,
    )
    lists = held.group_by("minibatch_id", maintain_order=True).agg(pl.all())
    return lists.with_columns(
        pl.lit("head", dtype=Minibatches.kind.dtype).alias("kind"),
        pl.lit(0, dtype=pl.Int64).alias("round"),
        pl.Series("num_prompts", sizes),
        pl.Series("num_samples", samples_b),
        pl.Series("predicted_tokens", tokens_b),
        pl.Series("predicted_longest", longest_b),
        pl.Series(
            "predicted_seconds",
            CostModel().minibatch_seconds(longest_b, samples_b.astype(np.float64)),
        ),
        pl.Series(
            "predicted_utilization",
            np.minimum(
                np.divide(tokens_b, paid_b, out=np.ones_like(paid_b), where=paid_b > 0), 1.0
            ),
        ),
    )


def run(source: str, output: str, config: PartitionConfig, force: bool = False) -> None:
    """Read lengths, cut, write minibatches, say what came out."""
    check_output(output, force)
    table = read_table(
        source,
        Lengths,
        partial(lengths_table.complete, samples_per_prompt=config.samples_per_prompt),
    )
    minibatches, results = partition(table.frame, config, table.name)
    if not results["is_within_slack"]:
        log.warning(
            "%d prompts cannot be cut into minibatches of %d +- %g%%; sizes differ by at most one",
            len(table.frame), config.batch_size, 100 * config.slack,
        )  # fmt: skip
    log.info(
        "%d prompts in %d minibatches, predicted utilisation %.3f%s",
        len(table.frame),
        len(minibatches),
        results["predicted_utilization"],
        _gap_in_words(results),
    )
    provenance = Provenance(
        stage="partition",
        schema="minibatches/1",
        config=asdict(config)
        | {
            "samples_per_prompt": int(table.frame["samples_per_prompt"][0]),
            "cost_model": asdict(CostModel()),
        },
        seed=config.seed,
        results=results,
        inputs=(Input("lengths", table.sha256, table.provenance),),
    )
    write_table(minibatches, Minibatches, output, provenance, force)


def _gap_in_words(results: dict[str, object]) -> str:
    if "gap" not in results:
        return ""
    gap = float(results["gap"])  # type: ignore[arg-type]
    verdict = "optimal" if gap < 1e-9 else f"within {gap:.2%} of the best"
    return f"; objective {results['objective']} = {results['objective_value']:.6g}, {verdict}"
