"""Does a bounded lag cost reward? 30 GRPO rounds on a tiny model, hybrid against ASP.

Each round takes 8 prompts with 8 responses. A seed is an order of 240 prompts, the same in every
mode, and the draws. What a run has learnt is the *held-out reward*: of its last weights on 128
prompts that no run is trained on, 8 responses each, drawn under one seed.

Fixed before the runs. ASP at a lag bound is not inferior to hybrid if the lower end of the
one-sided 95% interval of the difference in held-out reward, paired by seed (Student's t), lies
above -0.05. So large is half of the 0.1 that 30 rounds of plain GRPO had brought in a trial: less
than half of what is learnt may be lost. With 5 seeds whose differences scatter by 0.03 an interval
reaches 0.03 down, so a much smaller margin could hardly be met by equal ways. The benchmark can
only tell anything if two things hold, and says whether they do: hybrid gains more than the margin,
and the positive control, with a lag bound of 12, no importance weights and over three times the
learning rate, falls below hybrid by more than it: the upper end of its interval, of three seeds.

Two Generation Units share the machine with the Training Unit, so generation is about twice as fast
as training and ASP runs ahead as far as the bound lets it. Hybrid has one, since it takes turns.

    make tiny-model && python benchmarks/convergence.py [TASK [SEEDS [PLOT.svg]]]

with build/tiny-TASK as `make tiny-model` makes it, and seeds as in 0,1,2,3,4. Runs are kept in
build/convergence-TASK, and one that is finished is not run again: seeds can be run apart.
"""

import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from drawing import pyplot, save
from machine import heading
from numpy.typing import NDArray
from scipy.special import stdtrit
from small_schedule import write_schedule

from rollout.simulator.modes import Mode
from rollout.trainer.config import ControlConfig, CutConfig, ModelConfig, RunConfig

Floats = NDArray[np.float64]

BUILD = Path(__file__).parent.parent / "build"
NUM_ROUNDS, SIZE, SAMPLES = 30, 8, 8
NUM_HELD_OUT = 128  # prompts
MARGIN = 0.05  # of reward
LEARNING_RATE = 3e-4
NUM_CONTROLS = 3  # seeds of the control: what it must show takes no more
SMOOTHED = 5  # rounds, in the plot


@dataclass(frozen=True)
class Way:
    """One way to train."""

    mode: Mode
    max_lag: int
    is_corrected: bool = True
    learning_rate: float = LEARNING_RATE


WAYS = {
    "hybrid": Way("hybrid", 0),
    "ASP, bound 1": Way("asp", 1),
    "ASP, bound 4": Way("asp", 4),
    "control": Way("asp", 12, False, 1e-3),
}


@dataclass(frozen=True)
class Result:
    """Of one run."""

    held_out: float  # reward of the last weights
    rewards: Floats  # of the responses trained on, by round
    mean_lag: float
    max_lag: int


def run(task: str, name: str, seed: int) -> Result:
    """Train, unless that was done, and measure."""
    way, model = WAYS[name], BUILD / f"tiny-{task}"
    folder = BUILD / f"convergence-{task}"
    place = folder / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
    if not (place / "model").exists():
        schedule = folder / f"schedule-{seed}.parquet"
        order = np.random.default_rng(seed).permutation(NUM_ROUNDS * SIZE)
        write_schedule(schedule, order.tolist(), SIZE, 1, SAMPLES)
        train(str(schedule), place, model, way, seed)
    metrics = pl.read_parquet(place / "metrics.parquet")
    max_lag = int(metrics["max_lag"].cast(pl.Int64).max())  # type: ignore[arg-type]
    assert max_lag <= way.max_lag, f"{place}: a lag of {max_lag}"
    return Result(
        held_out(task, place / "model", place / "held_out.txt"),
        metrics["reward_mean"].to_numpy(),
        float(np.average(metrics["mean_lag"], weights=metrics["samples"])),
        max_lag,
    )


def train(schedule: str, place: Path, model: Path, way: Way, seed: int) -> None:
    """One run; goes on where it was broken off."""
    from rollout.trainer import stage

    source = ModelConfig(
        str(model), str(model / "prompts.parquet"), "reasoning-gym",
        units=1 if way.mode == "hybrid" else 2, slots=SIZE * SAMPLES,
        max_response_tokens=96, learning_rate=way.learning_rate,
        lag_correction="truncated" if way.is_corrected else "none",
    )  # fmt: skip
    control = ControlConfig(way.mode, way.max_lag)
    stage.run(schedule, str(place), source, control, CutConfig(), RunConfig(), seed, is_shown=False)


def held_out(task: str, model: Path, kept: Path) -> float:
    """Mean reward of a model; it is kept in a file."""
    if not kept.exists():
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from rollout.trainer.tiny_model.measure import measure
        from rollout.trainer.tiny_model.puzzles import PUZZLES

        prompts = pl.read_parquet(BUILD / f"tiny-{task}/prompts.parquet").tail(NUM_HELD_OUT)
        measured = measure(
            AutoModelForCausalLM.from_pretrained(model),
            AutoTokenizer.from_pretrained(model, padding_side="left"),
            PUZZLES[task], prompts, SAMPLES, seed=0,
        )  # fmt: skip
        kept.write_text(str(float(measured.rewards_ps.mean())))
    return float(kept.read_text())


def lower_end(differences: Floats) -> float:
    """Of the one-sided 95% interval of the mean, by Student's t."""
    reach = float(stdtrit(len(differences) - 1, 0.95)) / np.sqrt(len(differences))
    return float(differences.mean() - reach * differences.std(ddof=1))


def verdict(name: str, differences: Floats) -> str:
    """What the differences to hybrid say, by the margin that was fixed beforehand."""
    if len(differences) < 2:
        return "one seed: no verdict"
    if name == "control":
        is_below = -lower_end(-differences) < -MARGIN
        return "degrades, as it must" if is_below else "does not degrade: NOTHING IS SHOWN"
    return "not inferior" if lower_end(differences) > -MARGIN else "not shown to be not inferior"


def main() -> None:
    """Run what is not done, then print; draw where a file is named."""
    task = sys.argv[1] if len(sys.argv) > 1 else "maze"
    seeds = [int(seed) for seed in (sys.argv[2] if len(sys.argv) > 2 else "0,1,2,3,4").split(",")]
    import torch

    from stages.workers.ray_cluster import on_ray

    torch.set_num_threads(1)
    (BUILD / f"convergence-{task}").mkdir(exist_ok=True)
    results: dict[str, list[Result]] = {name: [] for name in WAYS}
    with on_ray(None, ""):
        for seed, name in product(seeds, WAYS):
            if name != "control" or len(results[name]) < NUM_CONTROLS:
                results[name].append(run(task, name, seed))
                last = results[name][-1]
                print(f"{name}, seed {seed}: held out {last.held_out:.3f}, lag "
                      f"{last.mean_lag:.2f}", file=sys.stderr, flush=True)  # fmt: skip
    before = held_out(task, BUILD / f"tiny-{task}", BUILD / f"convergence-{task}/before.txt")
    print(heading(f"Reward after {NUM_ROUNDS} rounds: hybrid against ASP, {task}"))
    print(f"{len(seeds)} seeds; {SIZE} prompts with {SAMPLES} responses a round; learning rate "
          f"{LEARNING_RATE:g}, of the control\n{WAYS['control'].learning_rate:g}. Held-out reward "
          f"before training {before:.3f}. Margin {MARGIN}, fixed beforehand.\n")  # fmt: skip
    print_table(results, before)
    if len(sys.argv) > 3:
        plot(sys.argv[3], results)


def print_table(results: dict[str, list[Result]], before: float) -> None:
    """A line a way."""
    hybrid = np.array([result.held_out for result in results["hybrid"]])
    print("| | held-out reward | by seed | last 10 rounds | mean lag | largest | "
          "less hybrid's, end of interval | |\n|" + "---|" * 8)  # fmt: skip
    for name, runs in results.items():
        held = np.array([result.held_out for result in runs])
        late = np.mean([result.rewards[-10:].mean() for result in runs])
        row = [
            name, f"{held.mean():.3f}", " ".join(f"{reward:.3f}" for reward in held), f"{late:.3f}",
            f"{np.mean([result.mean_lag for result in runs]):.2f}",
            str(max(result.max_lag for result in runs)),
        ]  # fmt: skip
        if name == "hybrid":
            gain = held.mean() - before
            row += ["", f"gains {gain:.3f}" + ("" if gain > MARGIN else ": NOTHING IS SHOWN")]
        else:
            difference = held - hybrid[: len(held)]
            row += [f"{difference.mean():+.3f}", verdict(name, difference)]
            if len(held) > 1:
                end = lower_end(difference) if name != "control" else -lower_end(-difference)
                row[-2] += f", {end:+.3f}"
        print(f"| {' | '.join(row)} |")


def plot(path: str, results: dict[str, list[Result]]) -> None:
    """Reward by round: the mean of the seeds over the last rounds, and the range of the seeds."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 3.4))
    rounds = np.arange(SMOOTHED, NUM_ROUNDS + 1)
    kernel = np.full(SMOOTHED, 1 / SMOOTHED)
    for name, runs in results.items():
        curves = np.array([np.convolve(result.rewards, kernel, "valid") for result in runs])
        (line,) = axis.plot(rounds, curves.mean(axis=0), linewidth=1.2, label=name)
        axis.fill_between(
            rounds, curves.min(axis=0), curves.max(axis=0), color=line.get_color(), alpha=0.12,
            linewidth=0,
        )  # fmt: skip
    axis.set_xlabel("round")
    axis.set_ylabel(f"reward, mean of {SMOOTHED} rounds")
    axis.legend(frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
