"""How near the bound are groups of equal load, and how fast, beside what users would pick instead?

The same loads go to `asp balance`, to verl's `get_seqlen_balanced_partitions(equal_size=True)`, to
prtpy and to a plain CP-SAT model with a time limit. Loads: predicted seconds of minibatches of 8
prompts, cut from recorded lengths as if they were known, and log-normal ones. Printed are the
largest group over the mean, less the bound that no grouping of equal sizes is below, and seconds;
each the mean and the worst of three seeds. A second table tells what each policy brings and costs,
a third how many groups `isolate` sets apart.

verl 0.9.1 and prtpy run in an interpreter of their own:

    python -m venv peers && peers/bin/pip install prtpy torch==2.13.0 \\
        'transformers<5.11' && peers/bin/pip install --no-deps verl==0.9.1 'tensordict<0.11' \\
        codetiming hydra-core omegaconf 'antlr4-python3-runtime==4.9.*' torchdata pylatexenc \\
        cloudpickle orjson pyvers importlib_metadata zipp dill psutil ray httpx2
    python benchmarks/balance_quality.py peers/bin/python [ROLLOUTS.parquet]
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
from machine import heading
from ortools.sat.python import cp_model

from stages.balance.stage import BalanceConfig, balance
from stages.balance.waiting import num_long_groups
from stages.costs.model import CostModel
from stages.tables.derived import complete_minibatches
from stages.tables.io import conform
from stages.tables.schemas import Minibatches

SEEDS = (0, 1, 2)
NUM_MINIBATCHES = 256
CPSAT_SECONDS = 10.0
PEERS = """
import json, sys, time
import prtpy
from prtpy.partitioning.balanced import bidirectional_balanced
from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions

def prtpy_with(algorithm):
    def run(loads, num_groups):
        return prtpy.partition(algorithm, num_groups, dict(enumerate(loads)))
    return run

ways = {
    "verl, equal_size=True": lambda x, n: get_seqlen_balanced_partitions(x, n, equal_size=True),
    "prtpy bidirectional_balanced": prtpy_with(bidirectional_balanced),
    "prtpy roundrobin": prtpy_with(prtpy.partitioning.roundrobin),
    "prtpy kk": prtpy_with(prtpy.partitioning.kk),
    "prtpy multifit": prtpy_with(prtpy.partitioning.multifit),
    "prtpy greedy": prtpy_with(prtpy.partitioning.greedy),
}
answers = []
for loads, num_groups in json.load(sys.stdin):
    answers.append({})
    for name, way in ways.items():
        start = time.perf_counter()
        groups = way(loads, num_groups)
        answers[-1][name] = [[list(map(int, g)) for g in groups], time.perf_counter() - start]
print(json.dumps(answers))
"""


def minibatches_of(lengths_ps: list[np.ndarray]) -> pl.DataFrame:
    """Minibatches of 8 prompts of like longest response, lengths [tokens] known."""
    order = sorted(range(len(lengths_ps)), key=lambda p: lengths_ps[p].max())
    cut = [order[start : start + 8] for start in range(0, len(order), 8)]
    inside = [np.concatenate([lengths_ps[p] for p in prompts]) for prompts in cut]
    longest = np.array([float(lengths.max()) for lengths in inside])
    samples = np.array([len(lengths) for lengths in inside])
    frame = pl.DataFrame(
        {
            "minibatch_id": range(len(cut)), "prompt_ids": cut, "num_samples": samples,
            "predicted_tokens": [float(lengths.sum()) for lengths in inside],
            "predicted_longest": longest,
            "predicted_seconds": CostModel().minibatch_seconds(longest, samples.astype(float)),
            "predicted_utilization": [float(lengths.mean() / lengths.max()) for lengths in inside],
        }
    )  # fmt: skip
    return conform(frame, Minibatches, "benchmark", complete_minibatches)


def recorded(rollouts: pl.DataFrame, model: str, seed: int) -> pl.DataFrame:
    """Minibatches of as many of a model's prompts as are wanted, drawn at random."""
    of_model = rollouts.filter((pl.col("model") == model) & (pl.col("response_tokens") > 0))
    lists = of_model.group_by("prompt", maintain_order=True).agg("response_tokens")
    lengths_ps = [tokens.to_numpy() for tokens in lists["response_tokens"]]
    num = min(NUM_MINIBATCHES, len(lengths_ps) // 128 * 16) * 8
    drawn = np.random.default_rng(seed).permutation(len(lengths_ps))[:num]
    return minibatches_of([lengths_ps[p] for p in drawn])


def log_normal(sigma: float, seed: int) -> pl.DataFrame:
    """Minibatches of 8 prompts with 3 samples each, log-normal lengths."""
    lengths_ps = np.random.default_rng(seed).lognormal(5, sigma, (NUM_MINIBATCHES * 8, 3))
    return minibatches_of(list(np.ceil(lengths_ps)))


def cp_sat(loads: list[int], num_groups: int) -> list[list[int]]:
    """Minimise the largest load of groups of equal size."""
    model, groups = cp_model.CpModel(), range(num_groups)
    is_in = [[model.new_bool_var("") for _ in groups] for _ in loads]
    largest = model.new_int_var(0, sum(loads), "")
    for row in is_in:
        model.add_exactly_one(row)
    for g in groups:
        model.add(sum(row[g] for row in is_in) == len(loads) // num_groups)
        load = sum(int(value) * row[g] for value, row in zip(loads, is_in, strict=True))
        model.add(load <= largest)
    model.minimize(largest)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = CPSAT_SECONDS
    solver.parameters.num_workers = 1
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return []
    return [[b for b, row in enumerate(is_in) if solver.boolean_value(row[g])] for g in groups]


def compare(name: str, tables: list[pl.DataFrame], group_size: int, python: str) -> None:
    """Print one table: ways down; excess over the bound, size of groups, seconds across."""
    problems, found = [], []
    for table in tables:
        seconds = table["predicted_seconds"].to_numpy()
        loads = np.round(seconds / seconds.mean() * 1e6).astype(int).tolist()
        problems.append((loads, len(loads) // group_size))
    done = subprocess.run(
        [python, "-c", PEERS], input=json.dumps(problems), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    answers = json.loads(done.stdout.splitlines()[-1])
    for table, (loads, num_groups), answer in zip(tables, problems, answers, strict=True):
        start = time.perf_counter()
        groups, results = balance(table, BalanceConfig(group_size))
        ours = time.perf_counter() - start
        row = dict(zip(groups["minibatch_id"], groups["group_id"], strict=True))
        of_ours = [[b for b in row if row[b] == g] for g in range(num_groups)]
        start = time.perf_counter()
        solved = cp_sat(loads, num_groups)
        limit = f"CP-SAT, {CPSAT_SECONDS:.0f} s, 1 worker"
        ways = {"asp balance": (of_ours, ours), **answer}
        ways[limit] = (solved, time.perf_counter() - start)
        bound = results["imbalance_bound"]
        found.append(
            {way: measured(groups, loads, bound, taken) for way, (groups, taken) in ways.items()}
        )
    print(f"\n## {name}, {len(problems[0][0])} minibatches in groups of {group_size}\n")
    print(
        "| way | above the bound, mean | worst | sizes of groups | seconds |\n|---|---|---|---|---|"
    )
    for way in found[0]:
        excess, least, most, taken = np.array([one[way] for one in found]).T
        if np.isnan(excess).any():
            print(
                f"| {way} | no answer | in {np.isnan(excess).sum()} of 3 | | {taken.mean():.3f} |"
            )
            continue
        sizes = f"{least.min():.0f} to {most.max():.0f}" if least.min() < most.max() else "equal"
        print(
            f"| {way} | {excess.mean():.3%} | {excess.max():.3%} | {sizes} | {taken.mean():.3f} |"
        )


def measured(
    groups: list[list[int]], loads: list[int], bound: float, taken: float
) -> tuple[float, int, int, float]:
    """Largest over mean less the bound, fewest and most members, seconds."""
    if not groups:
        return float("nan"), 0, 0, taken
    load_g = [sum(loads[b] for b in group) for group in groups]
    sizes = [len(group) for group in groups]
    excess = max(load_g) / (sum(loads) / len(groups)) - 1 - bound
    return round(excess, 6) + 0.0, min(sizes), max(sizes), taken  # + 0.0: no minus before a zero


def policies(name: str, tables: list[pl.DataFrame]) -> None:
    """Print what each policy and baseline brings, mean of the seeds, groups of 8."""
    print(f"\n## {name}: what each policy brings and costs, groups of 8\n")
    print("| way | largest load above mean | mean longest of a group [tokens] | groups set apart "
          "| lengths off the whole, mean | largest | random prompts, mean |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    ways = {p: BalanceConfig(policy=p) for p in ("balanced", "like", "isolate")}
    ways |= {m: BalanceConfig(method=m) for m in ("sorted", "shuffled", "snake")}
    for way, config in ways.items():
        rows = [balance(table, config)[1] for table in tables]
        mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        print(
            f"| {way} | {mean['imbalance']:.2%} | {mean['mean_longest']:.0f} "
            f"| {mean['num_long_groups']:.1f} of {mean['num_groups']:.0f} "
            f"| {mean['length_bias_mean']:.0%} | {mean['length_bias_largest']:.0%} "
            f"| {mean['length_bias_random_mean']:.0%} |"
        )


def isolated(inputs: dict[str, list[pl.DataFrame]]) -> None:
    """Print the share of groups set apart for shares of what `like` saves."""
    print("\n## Groups that `isolate` sets apart to save a share of what `like` saves\n")
    shares = (0.25, 0.5, 0.75, 0.9)
    print("| lengths | " + " | ".join(f"{share:.0%}" for share in shares) + " |")
    print("|---" * (len(shares) + 1) + "|")
    for name, tables in inputs.items():
        problems = [BalanceConfig(load="seconds").problem(table) for table in tables]
        cells = [
            np.mean(
                [
                    num_long_groups(table["predicted_longest"].to_numpy(), problem, share)
                    / len(problem.capacity_g)
                    for table, problem in zip(tables, problems, strict=True)
                ]
            )
            for share in shares
        ]
        print(f"| {name} | " + " | ".join(f"{cell:.0%}" for cell in cells) + " |")


def main() -> None:
    """Print all tables."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    default = Path(__file__).parent.parent / "sample_data/rollouts.parquet"
    rollouts = pl.read_parquet(sys.argv[2] if len(sys.argv) > 2 else default)
    models = rollouts["model"].unique(maintain_order=True)
    inputs = {model: [recorded(rollouts, model, seed) for seed in SEEDS] for model in models}
    inputs["log-normal, sigma 0.6"] = [log_normal(0.6, seed) for seed in SEEDS]
    inputs["log-normal, sigma 1"] = [log_normal(1.0, seed) for seed in SEEDS]
    print(heading("Groups of equal load, beside what users would pick instead"))
    print("Peers: verl 0.9.1, prtpy 0.8.3; CP-SAT of OR-Tools.")
    for name, tables in inputs.items():
        compare(name, tables, 8, sys.argv[1])
    compare("log-normal, sigma 0.6", inputs["log-normal, sigma 0.6"], 16, sys.argv[1])
    for name, tables in inputs.items():
        policies(name, tables)
    isolated(inputs)


if __name__ == "__main__":
    main()
