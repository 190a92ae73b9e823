"""How good are the embedded predictor's lengths on prompts that it has not seen?

For each model in a file of rollouts, in 5 folds by prompt: the order of the prompts (Kendall's
tau-b, recall of the longest fifth), what the intervals cover, and what is expected in total beside
what was observed, of one response and of the longest of a prompt's and of sets of prompts. Spread
and calibration are crossed over folds too. A response at its cap counts as the cap; without
`max_tokens`, or where responses are far over it, since a tokenizer other than the model's counted
them, the cap is the longest response.

With --samples N, for files of many samples a prompt: how the distribution does for other n. Half of
a prompt's samples tell its mean log length and spread; on the other half the law is fitted, from
the longest of all of them comes the share of chance, and the longest of n of them are predicted.

    python benchmarks/prediction_quality.py [--samples 8,16] [ROLLOUTS.parquet ...]
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from machine import heading

from stages.lengths.distribution import LengthDistribution
from stages.predictor import embedded
from stages.predictor.backend import Observations
from stages.predictor.calibration import coverage
from stages.predictor.evaluation.labels import judge
from stages.predictor.evaluation.measures import measure
from stages.predictor.observations import Evidence, observe
from stages.predictor.spread import fit_spread
from stages.tables.io import conform
from stages.tables.prompts import prompt_hash
from stages.tables.schemas import Profile

SEED = 0
FAR_OVER = 1.2  # times the cap: counted by another tokenizer
SET_SIZES = (8, 32)  # prompts


def profile_of(rollouts: pl.DataFrame) -> pl.DataFrame:
    """Rollouts of one model as a profile table, prompts numbered in order of appearance."""
    longest = rollouts.select(pl.max("response_tokens")).item()
    has_caps = "max_tokens" in rollouts.columns
    cap = rollouts.select(pl.max("max_tokens")).item() if has_caps else None
    if cap is None or (longest > FAR_OVER * cap and rollouts["prompt"].n_unique() < 100):
        rollouts = rollouts.with_columns(max_tokens=pl.lit(longest + 1, dtype=pl.Int64))
    number = {text: i for i, text in enumerate(dict.fromkeys(rollouts["prompt"]))}
    is_at_cap = pl.col("response_tokens") >= pl.col("max_tokens")
    frame = rollouts.select(
        pl.col("prompt").replace_strict(number).alias("prompt_id"),
        pl.col("prompt").map_elements(prompt_hash, return_dtype=pl.String).alias("prompt_hash"),
        "prompt",
        pl.col("task").alias("domain"),
        "model",
        pl.int_range(pl.len()).over("prompt").alias("sample_index"),
        "prompt_tokens",
        pl.min_horizontal("response_tokens", "max_tokens").alias("response_tokens"),
        pl.when(is_at_cap).then(pl.lit("length")).otherwise(pl.lit("stop")).alias("finish_reason"),
        pl.col("max_tokens").alias("max_response_tokens"),
        pl.lit(0).alias("policy_version"),
    )
    return conform(frame, Profile, "profile")


def row(model: str, evidence: Evidence) -> str:
    """A row of the table."""
    start = time.process_time()
    predictor, held_out = embedded.fit(evidence.observations, 5, SEED)
    assert held_out is not None
    fit_seconds = time.process_time() - start
    start = time.process_time()
    predictor.predict(evidence.observations.texts, evidence.observations.domains)
    speed = len(evidence.prompts) / (time.process_time() - start)
    judged = judge(evidence, held_out)
    table, observations = judged.table, evidence.observations
    mean = measure(judged.forecasts["mean"], judged.labels["mean"])
    lengths = held_out.prediction.with_cap(evidence.prompts["cap"].to_numpy())
    z_s = held_out.prediction.with_cap(np.inf)[observations.prompt_s].normal_score(
        observations.log_tokens_s
    )
    covered = [
        f"{coverage(z_s, observations.is_censored_s, observations.weight_s, level):.1%}"
        for level in (0.8, 0.9)
    ]
    biases = [
        f"{table.select(pl.sum(f'expected_{told}') / pl.sum(f'observed_{seen}')).item() - 1:+.1%}"
        for told, seen in (("tokens", "mean"), ("longest", "longest"))
    ]
    sets = [f"{bias:+.1%}" for bias in set_biases(lengths, evidence)]
    return (
        f"| {model} | {len(table)} | {mean.tau:.3f} / {mean.recall_20:.3f} "
        f"| {' / '.join(covered)} | {' | '.join(biases)} | {' / '.join(sets)} "
        f"| {fit_seconds:.0f} s, {speed:,.0f}/s |"
    )


def set_biases(lengths: LengthDistribution, evidence: Evidence) -> list[float]:
    """Expected longest of random sets of prompts over the observed, less 1, for each size."""
    prompt_s = evidence.observations.prompt_s
    samples_p = np.bincount(prompt_s)
    longest_p = np.zeros(len(samples_p))
    np.maximum.at(longest_p, prompt_s, evidence.tokens_s)
    usual = int(np.median(samples_p))
    shuffled = np.random.default_rng(SEED).permutation(np.flatnonzero(samples_p == usual))
    biases = []
    for size in SET_SIZES:
        rows = shuffled[: len(shuffled) // size * size]
        starts = np.arange(0, len(rows) + 1, size)
        expected = lengths[rows].expected_longest_of_sets(usual, starts)
        observed = longest_p[rows].reshape(-1, size).max(axis=1)
        biases.append(float(expected.sum() / observed.sum() - 1))
    return biases


def judge_known(model: str, evidence: Evidence, sizes: list[int]) -> str:
    """Expected longest of n where other samples of a prompt tell its mean and spread."""
    observations = evidence.observations
    is_seen_s = np.arange(len(observations.prompt_s)) % 2 == 0
    seen_s = observations.prompt_s[is_seen_s]
    count_p = np.bincount(seen_s)
    log_tokens = observations.log_tokens_s
    mu_p = np.bincount(seen_s, log_tokens[is_seen_s]) / count_p
    square_p = np.bincount(seen_s, log_tokens[is_seen_s] ** 2) / count_p
    others = Observations(
        observations.texts,
        observations.prompt_s[~is_seen_s],
        log_tokens[~is_seen_s],
        observations.is_censored_s[~is_seen_s],
    )
    spread_p = np.sqrt(np.maximum(square_p - mu_p**2, 0))
    # A predictor from few prompts widens its spread; here the lengths are known, not predicted.
    spread = replace(fit_spread(mu_p, spread_p, others).spread, trust=1.0)
    lengths = spread.apply(mu_p, spread_p).with_cap(evidence.prompts["cap"].to_numpy())
    tokens_ps = evidence.tokens_s[~is_seen_s].reshape(len(mu_p), -1)
    cells = []
    for n in sizes:
        parts = tokens_ps[:, : tokens_ps.shape[1] // n * n].reshape(len(mu_p), -1, n)
        observed = parts.max(axis=2).mean()
        cells.append(f"{lengths.expected_longest(n).mean() / observed - 1:+.1%}")
    return f"| {model} | {len(mu_p)} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    default = Path(__file__).parent.parent / "sample_data/rollouts.parquet"
    parser.add_argument("files", nargs="*", type=Path, default=[default])
    parser.add_argument("--samples", default="", help="n at which to check prompts known so far")
    given = parser.parse_args()
    evidences = {
        f"{model} ({path.stem})": observe(profile_of(part), path.name)
        for path in given.files
        for (model,), part in pl.read_parquet(path).group_by("model", maintain_order=True)
    }
    print(heading("Predicted lengths against recorded ones, 5 folds by prompt"))
    if given.samples:
        sizes = [int(n) for n in given.samples.split(",")]
        print("| model | prompts | " + " | ".join(f"longest of {n}" for n in sizes) + " |")
        print("|---" * (2 + len(sizes)) + "|")
        for model, evidence in evidences.items():
            print(judge_known(model, evidence, sizes), flush=True)
        return
    print(
        "| model | prompts | tau / recall, mean | covered of 80 / 90% | mean | longest of n "
        f"| longest of {SET_SIZES[0]} / {SET_SIZES[1]} prompts | fit, predict (CPU time) |\n"
        + "|---" * 8
        + "|"
    )
    for model, evidence in evidences.items():
        print(row(model, evidence), flush=True)


if __name__ == "__main__":
    main()
