"""What does `asp plan` find on recorded lengths, in both engines, and how long does it take?

The cluster of sample_data/cluster.toml, 3 samples a prompt, steps of 256 prompts; lengths are
predicted in 5 folds by prompt, true lengths drawn among a prompt's recorded responses.

    python benchmarks/plan.py [ROLLOUTS.parquet [MODEL]]
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from held_out import lengths_of, models
from machine import heading

from rollout.planner import words
from rollout.planner.choice import choose
from rollout.planner.space import PROMPTS_PER_GROUP, Wishes, space_of
from rollout.planner.stage import FEWEST_STEPS
from rollout.planner.trials import Task, Trials
from rollout.replay import recorded_lengths
from rollout.simulator.clusterfile import read_cluster

NUM_SAMPLES = 3
CLUSTER = Path(__file__).parent.parent / "sample_data/cluster.toml"


def main() -> None:
    """A report for each model and engine."""
    print(heading("Plans for the sample cluster"))
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    for model, profile in models():
        if only not in model:
            continue
        lengths = lengths_of(model, profile, 0, NUM_SAMPLES)
        wanted = FEWEST_STEPS * PROMPTS_PER_GROUP
        if wanted < len(lengths):
            rows = np.random.default_rng(0).choice(len(lengths), wanted, replace=False)
            lengths = lengths[np.sort(rows)]
        epochs = -(-wanted // len(lengths))
        recorded = recorded_lengths(lengths, profile)
        print(f"## {model}: {len(lengths)} prompts, passed {epochs} times\n")
        for engine in ("static", "continuous"):
            found = replace(read_cluster(str(CLUSTER)), name="cluster.toml")
            found = replace(found, cluster=replace(found.cluster, engine=engine))
            task = Task(lengths, recorded, NUM_SAMPLES, epochs, found, None)
            trials, start_s = Trials(task), time.process_time()
            choice = choose(
                trials, space_of(found, Wishes(), NUM_SAMPLES, len(lengths)), 0.03, range(5)
            )
            report = words.of_choice(trials, choice, task, "lengths.parquet")
            used_s = time.process_time() - start_s
            print(f"{engine}: {trials.num_runs} runs, {used_s:.0f} s of one core\n")
            print(f"```\n{report.partition('actors generate')[0].rstrip()}\n```\n", flush=True)


if __name__ == "__main__":
    main()
