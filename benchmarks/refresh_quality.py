"""What is a refresh worth on the same prompts before and after training?

Lengths of Qwen2.5-3B-Instruct are predicted in 5 folds by prompt, so no prompt's own responses
enter its prediction; observed are its RLVR checkpoints at step 500, on the prompts that both
answered.

1. Own responses: of 3 samples a prompt two are observed, the third is to be told; all three ways.
2. Drift: a tenth of the prompts is observed, all samples, the rest is to be told; 40 draws.
3. Twice: a refresh of a refresh beside one with all observations at once.

Domains, where used, are the task families of the data.

    python benchmarks/refresh_quality.py ../shared/data/reasoning_gym_rollouts.parquet
"""

import sys
from collections.abc import Iterator

import numpy as np
import polars as pl
from held_out import profile_of
from machine import heading
from scipy.special import ndtri
from scipy.stats import kendalltau

from stages.lengths.table import columns, complete
from stages.predictor import embedded
from stages.predictor.observations import observe
from stages.predictor.refresh.drift import Drift
from stages.predictor.refresh.evidence import join
from stages.predictor.refresh.update import RefreshConfig, Refreshed, refresh
from stages.tables.io import conform
from stages.tables.schemas import Lengths

BASE = "Qwen2.5-3B-Instruct"
STEP = 500
NUM_DRAWS = 40  # of a tenth of the prompts
NUM_BOOTSTRAPS = 200
SHARE = 0.1
FORMS = {
    "by_mean": "{:.3f}", "by_median": "{:.3f}", "cover80": "{:.1%}", "cover90": "{:.1%}",
    "bias": "{:+.1%}",
}  # fmt: skip


def main() -> None:
    rollouts = pl.read_parquet(sys.argv[1])
    print(heading("Refresh on the same prompts before and after training"))
    base = profile_of(rollouts.filter(pl.col("model") == BASE))
    evidence = observe(base, BASE)
    _, held_out = embedded.fit(evidence.observations, 5, 0)
    assert held_out is not None
    lengths = held_out.prediction.with_cap(evidence.prompts["cap"].to_numpy())
    families = rollouts.select("prompt", domain="task").unique("prompt", keep="first")
    predicted = (
        evidence.prompts.with_columns(
            **columns(lengths), samples_per_prompt=pl.lit(3)
        )
        .join(families, on="prompt", how="left", maintain_order="left")
        .select("prompt_id", "prompt_hash", "domain", "mu", "sigma", "sample_sigma",
                "nu_below", "nu_above", "cap",
                "samples_per_prompt")
    )  # fmt: skip
    for model in sorted(set(rollouts["model"])):
        if model.startswith("Qwen2.5-3B-RLVR"):
            after = profile_of(rollouts.filter(pl.col("model") == model))
            after = after.with_columns(policy_version=pl.lit(STEP)).filter(
                pl.col("sample_index") < 3, pl.len().over("prompt_hash") >= 3
            )
            shared = predicted.join(after, on="prompt_hash", how="semi", maintain_order="left")
            measure(model, conform(shared, Lengths, model, complete), after)


def measure(model: str, lengths: pl.DataFrame, after: pl.DataFrame) -> None:
    after = after.join(lengths, on="prompt_hash", how="semi", maintain_order="left")
    plain = lengths.with_columns(domain=pl.lit(None, dtype=pl.String))
    ways = {"without domains": plain, "with domains": lengths}
    print(f"## {model}: {len(lengths)} prompts shared with the base\n")
    own_responses(ways, after)
    drift_of_a_tenth(ways, after)
    for name, table in ways.items():
        twice(name, table, after)


def refreshed(lengths: pl.DataFrame, profile: pl.DataFrame, samples: int, at: int = 0) -> Refreshed:
    config = RefreshConfig(group_samples=samples)
    observed, _ = join(lengths, profile, "lengths", samples)
    return refresh(lengths, observed, config, at)


def own_responses(ways: dict[str, pl.DataFrame], after: pl.DataFrame) -> None:
    """Two samples observed, the third told: tau, coverage, bias, means over which is the third."""
    lengths = ways["without domains"]
    scores: dict[str, list[dict[str, float]]] = {}
    gains = []
    for third in range(3):
        seen = after.filter(pl.col("sample_index") != third)
        target = tokens_of(after.filter(pl.col("sample_index") == third), lengths)
        mean = tokens_of(seen, lengths)
        tables = {"predicted": lengths} | {
            f"refreshed {name}": refreshed(table, seen, 2).lengths for name, table in ways.items()
        }
        scores.setdefault("mean of the two", []).append({"by_mean": tau(mean, target)})
        for name, table in tables.items():
            scores.setdefault(name, []).append(told(table, target))
        expected = tables["refreshed without domains"]["mu"].to_numpy()
        gains.append(gain(expected, mean, target))
    print("The third sample, from two observed:\n")
    print("| | tau by mean | tau by median | 80% interval covers | 90% | expected / observed |")
    print("|---|---|---|---|---|---|")
    for name, values in scores.items():
        cells = []
        for key, form in FORMS.items():
            known = [v[key] for v in values if key in v]
            cells.append(form.format(np.mean(known)) if known else "-")
        print(f"| {name} | {' | '.join(cells)} |")
    low, high = np.quantile(np.mean(gains, axis=0), [0.05, 0.95])
    print(
        "\nRefreshed without domains, by median, less the mean of the two: "
        f"{low:+.4f} to {high:+.4f} tau (90%, bootstrap by prompt).\n"
    )


def tokens_of(profile: pl.DataFrame, lengths: pl.DataFrame) -> np.ndarray:
    """Mean response tokens of each prompt of the table."""
    mean = profile.group_by("prompt_hash").agg(pl.mean("response_tokens"))
    return (
        lengths.select("prompt_hash")
        .join(mean, on="prompt_hash", how="left", maintain_order="left")["response_tokens"]
        .to_numpy()
    )


def tau(first: np.ndarray, second: np.ndarray) -> float:
    return float(kendalltau(first, second).statistic)


def told(table: pl.DataFrame, target: np.ndarray) -> dict[str, float]:
    """Taus; coverage of one response each, cut ones at the cap; bias of the expected tokens."""
    expected, mu, sigma, cap = (
        table[c].to_numpy() for c in ("expected_tokens", "mu", "sigma", "cap")
    )
    found = {
        "by_mean": tau(expected, target),
        "by_median": tau(mu, target),
        "bias": float(expected.sum() / target.sum() - 1),
    }
    for level in (80, 90):
        reach = ndtri(0.5 + level / 200)
        low, high = (np.minimum(np.exp(mu + side * reach * sigma), cap) for side in (-1, 1))
        found[f"cover{level}"] = float(np.mean((low <= target) & (target <= high)))
    return found


def gain(ours: np.ndarray, theirs: np.ndarray, target: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(0)
    draws = (rng.integers(0, len(target), len(target)) for _ in range(NUM_BOOTSTRAPS))
    return np.array([tau(ours[d], target[d]) - tau(theirs[d], target[d]) for d in draws])


def drift_of_a_tenth(ways: dict[str, pl.DataFrame], after: pl.DataFrame) -> None:
    """Observe a tenth of the prompts; what of the drift of all, and of the other prompts?"""
    print(f"{NUM_DRAWS} draws of a tenth of the prompts; drift at the middle of all prompts:\n")
    print(
        "| | drift of all | draws within 10% of its length | median error of log drift "
        "| 90% interval holds it | tau of the others before | after | 80% covers | 90% |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, lengths in ways.items():
        whole = refreshed(lengths, after, 3).drift
        draws = list(tenths(lengths, after))
        error = [abs(offset_at(done.drift, whole.centre) - whole.offset) for done, _ in draws]
        is_held = []
        for done, _ in draws:
            low, high = done.drift.offset_interval
            is_held.append(low <= offset_at(whole, done.drift.centre) <= high)
        mean = {key: float(np.mean([scores[key] for _, scores in draws])) for key in draws[0][1]}
        cells = (
            f"{np.exp(whole.offset):.3f} x", f"{np.mean(np.array(error) < np.log(1.1)):.0%}",
            f"{np.median(error) / abs(whole.offset):.0%}", f"{np.mean(is_held):.0%}",
            f"{mean['before']:.3f}", f"{mean['by_median']:.3f}",
            f"{mean['cover80']:.1%}", f"{mean['cover90']:.1%}",
        )  # fmt: skip
        print(f"| {name} | {' | '.join(cells)} |")
    print()


def offset_at(drift: Drift, mu: float) -> float:
    """Log tokens by which the mean prompt predicted at mu moves."""
    return drift.offset + (drift.scale - 1) * (mu - drift.centre)


def tenths(
    lengths: pl.DataFrame, after: pl.DataFrame
) -> Iterator[tuple[Refreshed, dict[str, float]]]:
    rng = np.random.default_rng(0)
    target = tokens_of(after.filter(pl.col("sample_index") == 0), lengths)
    for _ in range(NUM_DRAWS):
        is_seen = np.zeros(len(lengths), dtype=bool)
        is_seen[rng.permutation(len(lengths))[: round(SHARE * len(lengths))]] = True
        seen = after.join(lengths.filter(is_seen), on="prompt_hash", how="semi")
        done = refreshed(lengths, seen, 3)
        others = told(done.lengths.filter(~is_seen), target[~is_seen])
        before = lengths["expected_tokens"].to_numpy()[~is_seen]
        yield done, others | {"before": tau(before, target[~is_seen])}


def twice(name: str, lengths: pl.DataFrame, after: pl.DataFrame) -> None:
    """Prompts in two halves, one after the other, and at once."""
    is_first = pl.col("prompt_hash").hash(0) % 2 == 0
    first = refreshed(lengths, after.filter(is_first), 3)
    second = refreshed(first.lengths, after.filter(~is_first), 3, STEP).lengths
    at_once = refreshed(lengths, after, 3).lengths
    apart = np.exp(np.abs((second["mu"] - at_once["mu"]).to_numpy())) - 1
    print(f"Twice, {name}: median length {np.median(apart):.1%} apart in the median, "
          f"{np.quantile(apart, 0.95):.1%} at the 95th percentile, tau "
          f"{tau(second['mu'].to_numpy(), at_once['mu'].to_numpy()):.3f}.\n")  # fmt: skip


if __name__ == "__main__":
    main()
