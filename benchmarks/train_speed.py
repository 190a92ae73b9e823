"""What are the modes of `asp train` worth in time: hybrid, asynchronous, ASP?

Two machines. *timed*: processes in scaled real time at the proportions with which the simulator
meets the published tokens a second (`published.py`): log-normal lengths of sigma 1.4, predicted
with a correlation of 0.9, 8 minibatches of 32 a step, four units of two actors, lag bound 4,
static. Training takes half of what generation takes at full slots, and hybrid's two switches take
as much. Hybrid and asynchronous take prompts in random order, ASP its balanced order. Beside the
real times stand those of the simulator for the same responses, scaled alike; nothing is fitted.
*model*: the tiny maze model on this machine, a unit that generates beside one that trains, 8
rounds of 8 prompts with 8 responses; its lengths are not predicted, so ASP's order is as random
as the others'.

A ratio is of iteration times, by seed, over that of ASP, with a 95% interval.

    make tiny-model && python benchmarks/train_speed.py [timed|model ...]

Runs are kept in build/train-speed, and one that is finished is not run again.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from known_lengths import Setting
from machine import heading
from numpy.typing import NDArray
from published import MODES, TOKENS_PER_NPU
from published import run as simulated
from small_schedule import write_schedule
from timed_runs import Inputs, train_timed

from rollout.simulator.modes import Mode
from rollout.simulator.words import ratio_interval
from rollout.trainer.config import ControlConfig, CutConfig, ModelConfig, RunConfig

Floats = NDArray[np.float64]

BUILD = Path(__file__).parent.parent / "build"
FOLDER = BUILD / "train-speed"
NUM_SEEDS, MAX_LAG = 3, 4
WAYS = {"ASP": "ASP", "async, shuffled": "verl", "hybrid, shuffled": "MindSpeed-RL"}
SHAPE = Setting(12, 8, sigma=1.4, correlation=0.9, training=0.5)
SETTING = replace(SHAPE, switching_seconds=0.25 * SHAPE.bound(0))
SCALE = 0.025  # real seconds a second
NUM_ROUNDS, SIZE, SAMPLES = 8, 8, 8  # of the model


def place_of(part: str, name: str, seed: int) -> Path:
    return FOLDER / f"{part}-{name.split(',')[0]}-{seed}"


# Without a model ----------------------------------------------------------------------------------


def timed(name: str, seed: int) -> float:
    """Real seconds of an iteration."""
    order, mode = MODES[WAYS[name]]
    known, schedule = FOLDER / f"lengths-{seed}.parquet", FOLDER / f"{order}-{seed}.parquet"
    tokens_p = SETTING.tokens(seed)[0]
    pl.DataFrame(
        {
            "prompt_id": np.arange(len(tokens_p)), "mu": np.log(tokens_p),
            "sigma": np.zeros(len(tokens_p)), "cap": tokens_p, "prompt_tokens": 0 * tokens_p,
        }
    ).write_parquet(known)  # fmt: skip
    write_schedule(schedule, SETTING.orders(seed)[order], SETTING.size, SETTING.minibatches, 1)
    place = place_of("timed", name, seed)
    inputs = Inputs(schedule, known, None, SCALE)
    made = train_timed(place, inputs, SETTING.cluster(), mode, MAX_LAG, seed)
    assert mode == "async" or made.max_lag <= MAX_LAG, f"{place}: a lag of {made.max_lag}"
    return made.iteration_seconds


def foretold(name: str, seed: int) -> float:
    """By the simulator, in its seconds; nothing is fitted."""
    order, mode = MODES[WAYS[name]]
    return simulated(SETTING, order, seed, MAX_LAG, mode).seconds / SETTING.num_steps


def print_timed() -> None:
    """Real ratios beside those of the simulator."""
    real_w = {name: np.empty(NUM_SEEDS) for name in WAYS}
    for seed in range(NUM_SEEDS):
        for name in WAYS:
            real_w[name][seed] = timed(name, seed)
    told_w = {name: np.array([foretold(name, seed) for seed in range(NUM_SEEDS)]) for name in WAYS}
    print(f"## timed: published proportions, time scaled by {SCALE}, {NUM_SEEDS} seeds\n")
    print("| | iteration, real | simulated | over ASP, real | | simulated | published tokens/s/NPU "
          "|\n|" + "---|" * 7)  # fmt: skip
    for name, published in WAYS.items():
        real, told = real_w[name], told_w[name] * SCALE
        rate = TOKENS_PER_NPU["ASP"] / TOKENS_PER_NPU[published]
        expected = ratio_interval(told_w[name], told_w["ASP"])[0]
        print(f"| {name} | {real.mean():.2f} s | {told.mean():.2f} s "
              f"| {ratio(real, real_w['ASP'])} | {expected:.2f} | {rate:.2f} |")  # fmt: skip
    print()


# With the tiny model ------------------------------------------------------------------------------


def model(name: str, seed: int) -> float:
    """Real seconds of an iteration."""
    place, directory = place_of("model", name, seed), BUILD / "tiny-maze"
    mode: Mode = MODES[WAYS[name]][1]
    if not (place / "model").exists():
        from rollout.trainer import stage

        schedule = FOLDER / f"model-{seed}.parquet"
        order = np.random.default_rng(seed).permutation(NUM_ROUNDS * SIZE)
        write_schedule(schedule, order.tolist(), SIZE, 1, SAMPLES)
        source = ModelConfig(
            str(directory), str(directory / "prompts.parquet"), "reasoning-gym",
            slots=SIZE * SAMPLES, max_response_tokens=96, learning_rate=3e-4,
        )  # fmt: skip
        control, run = ControlConfig(mode, MAX_LAG), RunConfig(checkpoint_every=1000)
        stage.run(str(schedule), str(place), source, control, CutConfig(), run, seed,
                  is_shown=False)  # fmt: skip
    metrics = pl.read_parquet(place / "metrics.parquet")
    return float(metrics["end_s"].to_numpy()[-1]) / NUM_ROUNDS


def print_model() -> None:
    """Real ratios."""
    real_w = {name: np.empty(NUM_SEEDS) for name in WAYS}
    for seed in range(NUM_SEEDS):
        for name in WAYS:
            real_w[name][seed] = model(name, seed)
    print(f"## model: the tiny maze model, {NUM_SEEDS} seeds\n")
    print("| | iteration | over ASP | |\n|---|---|---|---|")
    for name in WAYS:
        print(f"| {name} | {real_w[name].mean():.2f} s | {ratio(real_w[name], real_w['ASP'])} |")
    print()


def ratio(seconds: Floats, asp: Floats) -> str:
    """To ASP's, and whether ASP gains by the interval."""
    if seconds is asp:
        return "| "
    middle, low, high = ratio_interval(seconds, asp)
    words = "ASP gains" if low > 1 else "ASP loses" if high < 1 else "no gain"
    return f"{middle:.2f} ({low:.2f} to {high:.2f}) | {words}"


def main() -> None:
    """The parts that are named, or both."""
    from stages.workers.ray_cluster import on_ray

    FOLDER.mkdir(parents=True, exist_ok=True)
    parts = {"timed": print_timed, "model": print_model}
    print(heading("Iteration time of the trainer by mode"))
    with on_ray(None, ""):
        for name in sys.argv[1:] or parts:
            parts[name]()


if __name__ == "__main__":
    main()
